//! Enums for the fixed strings of objects and reports.

/// An enum whose variants are written as they are named. `ALL` has them in their order.
#[macro_export]
macro_rules! names {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $name:ident,)+ }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $name,)+
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            /// As objects write it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}
