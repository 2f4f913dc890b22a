//! Java.
