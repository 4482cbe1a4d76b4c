//! What became of a result.

/// What became of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Verdict {
    /// Every unit of it counts.
    Counted,
    /// Some of its units had been counted before; the others count now (R2).
    CountedPartly,
    /// Every unit of it had been counted before.
    Duplicate,
    /// Units were given back.
    Returned,
    /// The node cannot run the job.
    Refused,
    /// No such job: deleted, or of a scheduler before this one.
    UnknownJob,
    /// The job's number is right, its specification is another.
    OtherSpecification,
    /// The interval was never given to anybody.
    NeverGiven,
    /// The body is not what this kind of work answers with.
    Malformed,
}

impl Verdict {
    /// How many there are.
    pub(crate) const KINDS: usize = Verdict::Malformed as usize + 1;
}
