//! What the engine should do.
#![forbid(unsafe_code)]
