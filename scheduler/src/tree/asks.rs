//! What is asked of agents, and who waits for the answer.

use std::collections::BTreeMap;

use starfarm_protocol::link::{Answer, Asked, Pieces};
use starfarm_protocol::orders::PostId;
use tokio::sync::oneshot;

/// Questions that wait for an answer, at most.
const OPEN_MAX: usize = 8;

/// All questions. Each has a number of its own.
#[derive(Default)]
pub(super) struct Asks {
    last: u64,
    /// Those that have not left yet.
    waiting: Vec<Ask>,
    open: BTreeMap<u64, Open>,
}

/// A question to an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    pub(crate) post: PostId,
    pub(crate) number: u64,
    pub(crate) asked: Asked,
    pub(crate) text: String,
}

struct Open {
    post: PostId,
    pieces: Pieces,
    reply: oneshot::Sender<Vec<u8>>,
}

impl Asks {
    /// Asks that post's agent; none where too many questions wait already.
    pub(super) fn ask(
        &mut self,
        post: PostId,
        (asked, text): (Asked, &str),
    ) -> Option<oneshot::Receiver<Vec<u8>>> {
        // Who does not wait any more has hung up.
        self.open.retain(|_, open| !open.reply.is_closed());
        if self.open.len() >= OPEN_MAX {
            return None;
        }
        self.last += 1;
        let (reply, answer) = oneshot::channel();
        self.open.insert(self.last, Open { post, pieces: Pieces::default(), reply });
        self.waiting.push(Ask { post, number: self.last, asked, text: text.to_owned() });
        Some(answer)
    }

    /// Those that are to leave now.
    pub(super) fn take_waiting(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.waiting)
    }

    /// A piece of an answer has come. One that nobody waits for is nothing.
    pub(super) fn on_answer(&mut self, answer: &Answer<'_>) {
        let number = answer.piece.number;
        let Some(open) = self.open.get_mut(&number).filter(|open| open.post == answer.post) else { return };
        if let Some(whole) = open.pieces.take(&answer.piece)
            && let Some(open) = self.open.remove(&number)
        {
            let _ = open.reply.send(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::link::Piece;

    use super::*;

    fn answer(asks: &mut Asks, post: u64, number: u64) {
        for piece in Piece::all(number, &[7; 10_000]) {
            asks.on_answer(&Answer { post: PostId(post), piece });
        }
    }

    #[test]
    fn an_answer_reaches_who_asked_and_is_of_the_post_that_was_asked() {
        let mut asks = Asks::default();
        let (graph, order) = ((Asked::Graph, ""), (Asked::Order, "end f"));
        let mut answers = [(1, graph), (2, order)].map(|(post, what)| asks.ask(PostId(post), what).unwrap());
        let ask = |number, (asked, text): (Asked, &str)| Ask {
            post: PostId(number),
            number,
            asked,
            text: text.to_owned(),
        };
        assert_eq!(asks.take_waiting(), [ask(1, graph), ask(2, order)]);
        assert_eq!(asks.take_waiting(), []);
        answer(&mut asks, 1, 2);
        answer(&mut asks, 1, 3);
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_err()));
        answer(&mut asks, 2, 2);
        assert_eq!(answers[1].try_recv().unwrap(), [7; 10_000]);
        assert!(answers[0].try_recv().is_err());
    }

    #[test]
    fn so_many_questions_wait_and_those_of_who_has_gone_make_room() {
        let mut asks = Asks::default();
        let mut ask = || asks.ask(PostId(1), (Asked::Graph, ""));
        let mut answers: Vec<_> = (0..OPEN_MAX).map(|_| ask().unwrap()).collect();
        assert!(ask().is_none());
        answers.pop();
        assert!(ask().is_some());
    }
}
