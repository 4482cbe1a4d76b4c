//! Why: why a job waits, why its tasks have the size that they have, why a node idles or is kept out. Answers are the
//! reasons with the numbers that decided, and no sentences: the command line makes these. Sizes and windows come from
//! the functions that decide, so what is told is what is done. Nothing here changes anything.

mod findings;
mod job;
mod node;

use starfarm_protocol::admin::{Explanation, Subject};

use crate::farm::Farm;

impl Farm {
    /// Why a job or a node is as it is; none where there is no such job or node.
    pub fn explain(&self, subject: &Subject, now_us: u64) -> Option<Explanation> {
        let (found, sizes) = match subject {
            Subject::Job(id) => self.explain_job(*id, now_us)?,
            Subject::Node(name) => self.explain_node(name, now_us)?,
        };
        Some(found.explanation(subject, sizes))
    }
}
