//! Words for the state of a node, for why it is idle, for what became of a result, and for what became of a job.

use crate::word::words;

words! {
    /// State of a node. The words are the same in JSON, XML, tables, pictures and docs.
    #[derive(Default)]
    NodeState {
        /// Heard lately.
        #[default]
        Up => "up",
        /// Not heard for a while: no new tasks.
        Suspect => "suspect",
        /// Not heard for long, or it said goodbye: it holds nothing.
        Lost => "lost",
        /// No new tasks, by command or because its worker stops.
        Draining => "draining",
        /// At power zero: one probe task at a time, with pauses.
        Quarantined => "quarantined",
    }
}

words! {
    /// Why a node that could compute has no task.
    IdleReason {
        /// There is no unfinished job.
        NoJob => "no_job",
        /// Every job that it could work for is paused.
        Paused => "paused",
        /// It refused every job that has something to give.
        Refused => "refused",
        /// Everything is given out: others compute the rest.
        NothingLeft => "nothing_left",
        /// Every job that it could work for waits for other jobs to end.
        After => "after",
        /// Every job that it could work for has as many nodes as it may have.
        MaxNodes => "max_nodes",
        /// It leaves by itself before a task of what waits would be over.
        NoTime => "no_time",
        /// A run of what waits does not fit into what it has.
        TooSmall => "too_small",
        /// It gets no new tasks in the state that it is in.
        State => "state",
        /// It could have one, and will in a moment: a lease or a datagram is on its way.
        Waiting => "waiting",
    }
}

words! {
    /// What became of a result.
    Outcome {
        /// Every unit of it counts.
        Counted => "counted",
        /// Some of its units had been counted before.
        Partly => "partly",
        /// All of its units had been counted before.
        Duplicate => "duplicate",
        /// Units were given back, not computed.
        Returned => "returned",
        /// The node cannot run the job, or said what makes no sense.
        Refused => "refused",
    }
}

words! {
    /// What the records of a job come to, as its certificate says.
    Completion {
        /// Every unit is done, once.
        Complete => "complete",
        /// Every unit is done or has failed for good, once.
        CompleteWithFailures => "complete_with_failures",
        /// It ended while some units were not wanted any more; the others are decided, once each.
        EndedEarly => "ended_early",
        /// Nothing to certify yet.
        NotEnded => "not_ended",
        /// The records contradict themselves or what the scheduler said.
        Broken => "broken",
    }
}
