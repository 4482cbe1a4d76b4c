//! What every connection can reach: the dispatcher, the stores, the keys, and a place for itself.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Sender, TrySendError};
use starfarm_events::Event;
use starfarm_protocol::admin::Response;
use starfarm_protocol::ids::{ContentHash, PublicKey};
use starfarm_protocol::seal::Responder;
use starfarm_scheduler_core::{Deeds, Farm};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::bells::Bells;
use super::door::Door;
use super::per_key::PerKey;
use crate::descriptors;
use crate::threads::{House, Input, Question};

/// Places for connections that have shaken hands; who finds none is hung up on.
pub(crate) struct Places {
    remote: Arc<Semaphore>,
    /// No number of callers from elsewhere takes these.
    local: Arc<Semaphore>,
}

impl Places {
    /// As many as the limit of descriptors allows.
    pub(crate) fn new() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { remote: places(descriptors::remote_places()), local: places(descriptors::LOCAL_PLACES) }
    }

    pub(super) fn remote(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.remote).try_acquire_owned().ok()
    }

    pub(super) fn local(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.local).try_acquire_owned().ok().or_else(|| self.remote())
    }
}

pub(crate) struct Desk {
    pub(crate) house: Arc<House>,
    pub(crate) responder: Mutex<Responder>,
    pub(crate) dispatcher: Sender<Input>,
    pub(crate) revoked: Sender<PublicKey>,
    pub(crate) revocations: tokio::sync::Notify,
    pub(crate) bells: Arc<Bells>,
    pub(crate) addresses: Vec<String>,
    pub(crate) door: Mutex<Door<AbortHandle>>,
    pub(crate) places: Places,
    /// What the specifications of jobs name, as far as somebody had to know.
    pub(crate) contents: Mutex<HashMap<ContentHash, Arc<[ContentHash]>>>,
    /// Connections of each node to the bulk channel.
    pub(crate) bulk: PerKey,
    /// The same of the orders channel.
    pub(crate) orders: PerKey,
}

impl Desk {
    /// Returns when the key is revoked: its connections end then.
    pub(super) async fn until_revoked(&self, key: &PublicKey) {
        loop {
            let next = self.revocations.notified();
            let revoked = {
                let keys = self.house.keys.lock().expect("a panic under the lock ends the process");
                keys.key(key).is_none_or(|entry| entry.revoked)
            };
            if revoked {
                return;
            }
            next.await;
        }
    }

    /// Something happened that who watches should know of. Nobody waits for that: without room it counts as missing.
    pub(crate) fn tell(&self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.dispatcher.try_send(Input::Event(Box::new(event))) {
            self.house.shared.unheard.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks the dispatcher; the answer comes once all that was changed is durable.
    pub(crate) async fn ask(
        &self,
        act: impl FnOnce(&mut Farm, u64, &mut Deeds) -> Response + Send + 'static,
    ) -> Response {
        let (reply, answer) = oneshot::channel();
        let mut question = Input::Ask(Question { act: Box::new(act), reply });
        // A full channel must not block the runtime's only thread.
        while let Err(error) = self.dispatcher.try_send(question) {
            let TrySendError::Full(back) = error else { return stopping() };
            question = back;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        answer.await.unwrap_or_else(|_| stopping())
    }

    /// Asks the dispatcher for what is no answer of its own: only parts of one.
    pub(super) async fn find<T: Send + 'static>(
        &self,
        find: impl FnOnce(&Farm) -> Result<T, Response> + Send + 'static,
    ) -> Result<T, Response> {
        let (send, receive) = oneshot::channel();
        let act = move |farm: &mut Farm, _: u64, _: &mut Deeds| match find(farm) {
            Ok(found) => {
                // The caller waits for the answer, which comes after this.
                let _ = send.send(found);
                Response::Done
            }
            Err(response) => response,
        };
        match self.ask(act).await {
            Response::Done => receive.await.map_err(|_| stopping()),
            other => Err(other),
        }
    }
}

fn stopping() -> Response {
    crate::answers::error(
        starfarm_protocol::admin::ErrorCode::Conflict,
        "the scheduler is stopping: ask again when it is back",
    )
}
