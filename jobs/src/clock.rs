//! Time comes in as a value, so that tests and simulations own it.

/// Milliseconds since 1970 UTC.
pub type Millis = i64;

/// A source of the present time.
pub trait Clock: Send + Sync {
    /// Now, in milliseconds since 1970 UTC.
    fn now(&self) -> Millis;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        jiff::Timestamp::now().as_millisecond()
    }
}

/// A clock that stands still until it is told to go on; shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(std::sync::Arc<std::sync::atomic::AtomicI64>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Millis) -> Self {
        Self(std::sync::Arc::new(now.into()))
    }

    /// Lets `ms` milliseconds pass.
    pub fn advance(&self, ms: Millis) {
        self.0.fetch_add(ms, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}
