//! House rules, as tests: what a reviewer would otherwise say again and again.
//!
//! - `style`: headers, lengths, words that must not be left behind, where `unsafe` may stand.
//! - `edges`: which module may know which.
//! - `promises`: every promise has a sentence, a check and a test.
//! - `documents`: links, sections, the hash that ties `docs/FORMAT.md` to the sources.
//! - `package`: what is published.
//!
//! They need no git and no network. `UPDATE_GOLDEN=1` rewrites the format hash.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod documents;
mod edges;
mod package;
mod promises;
mod source;
mod style;
