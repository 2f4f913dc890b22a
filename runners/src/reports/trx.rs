//! TRX.
