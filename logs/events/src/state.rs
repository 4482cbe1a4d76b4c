//! Words for the state of a node, for why it is idle, and for what became of a result.

use crate::field::words;

words! {
    /// State of a node. The words are the same in JSON, XML, tables, pictures and docs.
    #[derive(Default)]
    NodeState {
        /// Heard lately.
        #[default]
        Up = "up",
        /// Not heard for a while: no new tasks.
        Suspect = "suspect",
        /// Not heard for long, or it said goodbye: it holds nothing.
        Lost = "lost",
        /// No new tasks, by command or because its worker stops.
        Draining = "draining",
        /// At power zero: one probe task at a time, with pauses.
        Quarantined = "quarantined",
    }
}

words! {
    /// Why a node that could compute has no task.
    IdleReason {
        /// There is no unfinished job.
        NoJob = "no_job",
        /// Every job that it could work for is paused.
        Paused = "paused",
        /// It refused every job that has something to give.
        Refused = "refused",
        /// Everything is given out: others compute the rest.
        NothingLeft = "nothing_left",
        /// It gets no new tasks in the state that it is in.
        State = "state",
        /// It could have one, and will in a moment: a lease or a datagram is on its way.
        Waiting = "waiting",
    }
}

words! {
    /// What became of a result.
    Outcome {
        /// Every unit of it counts.
        Counted = "counted",
        /// Some of its units had been counted before.
        Partly = "partly",
        /// All of its units had been counted before.
        Duplicate = "duplicate",
        /// Units were given back, not computed.
        Returned = "returned",
        /// The node cannot run the job, or said what makes no sense.
        Refused = "refused",
    }
}
