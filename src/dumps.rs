//! The memory of this process is nobody else's: it holds an SSH key, tokens and passphrases.

/// Keeps the kernel from writing the process's memory to a file or to a program when it crashes, and processes of the same
/// user from reading or tracing it. To be called first; whoever has `CAP_SYS_PTRACE` may still look.
pub fn forbid() {
    #[cfg(target_os = "linux")]
    linux::forbid();
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

    pub fn forbid() {
        // No kernel refuses either: what is asked for is less than what is there. The second is for those who look at
        // limits; a program that takes dumps from the kernel gets none by the first.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _ = setrlimit(Resource::Core, none);
    }
}
