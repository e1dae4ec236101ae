//! Enums for the fixed strings of objects and reports.

/// Defines an enum whose variants are written by their names, with `ALL` and `as_str`.
#[macro_export]
macro_rules! names {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $name:ident,)+ }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $name,)+
        }

        impl $type {
            /// All variants, in order.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            /// The variant as written in objects.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}
