//! Atomics, in the form that the build asks for, as types of our own.
//!
//! Invariants
//! - Only what std, loom and shuttle have in common is handed on, so that whatever compiles in one
//!   form compiles in all; `new` is not const, since loom's is not, hence no static atomics.
//! - They are types of our own, not re-exports: clippy sees through a re-export, and could then not
//!   ban the originals elsewhere.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(feature = "loom")]
use loom::sync::atomic as form;

#[cfg(feature = "shuttle")]
use shuttle::sync::atomic as form;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use std::sync::atomic as form;

pub use std::sync::atomic::Ordering;

/// A fence of `order` between this thread's accesses before and after it.
#[inline]
pub fn fence(order: Ordering) {
    form::fence(order);
}

macro_rules! atomic {
    ($name:ident, $value:ty, $what:literal, $($fetch:ident)*) => {
        #[doc = $what]
        #[derive(Debug)]
        pub struct $name(form::$name);

        impl $name {
            /// One that holds `value`.
            #[inline]
            pub fn new(value: $value) -> Self {
                Self(form::$name::new(value))
            }

            /// The value.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Replaces the value.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }

            /// Replaces the value and gives the one before.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, order)
            }

            /// Replaces the value if it is `current`; either way gives the one before.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, success, failure)
            }

            $(
                /// Combines the value with `value`, as the name says; gives the one before.
                #[inline]
                pub fn $fetch(&self, value: $value, order: Ordering) -> $value {
                    self.0.$fetch(value, order)
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool, "An atomic flag.", fetch_and fetch_or);
atomic!(AtomicU32, u32, "Atomic 32 bits.", fetch_add fetch_sub fetch_max fetch_and fetch_or);
atomic!(AtomicU64, u64, "Atomic 64 bits.", fetch_add fetch_sub fetch_max fetch_and fetch_or);
atomic!(AtomicUsize, usize, "An atomic word.", fetch_add fetch_sub fetch_max fetch_and fetch_or);
