//! Script tests come here.
