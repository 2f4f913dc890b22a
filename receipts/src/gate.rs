//! Every check by name, so that the tests can take each one out and see whether a case notices.
//!
//! Only the crate's own unit tests can switch a check off: in any other build [`on`] is `true`.

/// One check of the verifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    KeyCanonical,
    KeySmallOrder,
    ReceiptSize,
    DiffSize,
    ChainSize,
    LineSize,
    LineForm,
    Utf8,
    Trailing,
    ControlCharacter,
    CanonicalBytes,
    Type,
    Members,
    RuleHash,
    RuleKeyId,
    RuleActor,
    RuleReason,
    RuleTime,
    RuleObject,
    RuleInt,
    RulePositive,
    RuleWord,
    AsOf,
    KeyId,
    OneKey,
    Signature,
    SignatureStrict,
    DiffLen,
    DiffHash,
    Run,
    Seq,
    OpenFirst,
    Prev,
    Time,
    Tree,
    AfterSeal,
    SealCount,
    SealHead,
    ExpectedHead,
    ExpectedCount,
    Sealed,
    JournalOrder,
    JournalAttempt,
    JournalLaunchBody,
    JournalLaunchSubject,
    JournalExitSubject,
    JournalCandidate,
    JournalSealed,
    JournalCount,
    JournalRef,
    JournalDiff,
    JournalHead,
    AuthorizationRun,
    AuthorizationPrev,
    AuthorizationSealed,
    AuthorizationOnce,
    AuthorizationTime,
    AuthorizationTree,
    AuthorizationKey,
    ExportForm,
    ExportSignature,
    KeyringSize,
    KeyringLine,
    KeyringOldKey,
    KeyringUsedKey,
    KeyringOldSignature,
    KeyringNewSignature,
    KeyringSeq,
    KeyringPrev,
    KeyringTime,
}

#[cfg(not(test))]
pub(crate) const fn on(_: Check) -> bool {
    true
}

#[cfg(test)]
pub(crate) use switch::on;

#[cfg(test)]
pub(crate) mod switch {
    use super::Check;

    std::thread_local! {
        static OFF: std::cell::Cell<Option<Check>> = const { std::cell::Cell::new(None) };
    }

    pub(crate) fn on(check: Check) -> bool {
        OFF.get() != Some(check)
    }

    /// Runs `work` with one check taken out, on this thread only.
    pub(crate) fn without<T>(check: Check, work: impl FnOnce() -> T) -> T {
        OFF.set(Some(check));
        let result = work();
        OFF.set(None);
        result
    }
}
