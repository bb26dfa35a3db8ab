//! The error numbers that the disk answers with.
//!
//! Invariants
//! - Every error of the disk is one of Linux's, with the kind that std gives it; the one exception
//!   is a map beyond the end of a file, which is `UnexpectedEof` as in the engine's own door.

use std::fmt;
use std::io;

/// A number as in errno(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $number:literal,)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Self = Self($number);)*

            /// Its name, as in the manual.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* _ => "E?" }
            }
        }
    };
}

errnos! {
    EPERM = 1, ENOENT = 2, EINTR = 4, EIO = 5, EBADF = 9, EAGAIN = 11, ENOMEM = 12, EBUSY = 16,
    EEXIST = 17, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, EMFILE = 24, EFBIG = 27, ENOSPC = 28,
    EROFS = 30, ENOTEMPTY = 39, EOPNOTSUPP = 95, EDQUOT = 122,
    EOF = -1,
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EOF => io::ErrorKind::UnexpectedEof.into(),
            Errno(number) => Self::from_raw_os_error(number),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
