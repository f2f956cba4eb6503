//! Runs a node: one thread owns it, everything else talks to that thread.
//!
//! The thread is not one of the runtime's: a node that does not come to an end at one input would take
//! the runtime's timers and sockets with it, and with them the API and the wish that the process ends. A
//! second thread, the watchdog (`pulse`), says so in the log.
//!
//! Storage, engine and links answer through an [`Inbox`]; people and the API through a
//! [`NodeHandle`]. All of it lands in one queue, so what one caller does in order happens in
//! order. The queue needs no bound of its own: storage and engine only answer what the node
//! asked, which the node bounds, and callers wait for their answers.

mod host;
pub mod lies;
mod pulse;
mod refusals;
mod run;

use crate::engine::Engine;
use crate::net::{Answer, Net};
use crate::storage::Storage;
pub(crate) use pulse::STALL;

use link::{Link, ToNode};
use node_core::content::BlobRef;
use node_core::ids::JobId;
use node_core::overlay::circuits::ends as circuits;
use node_core::overlay::signalling;
use node_core::trust::policy::Policy;
use node_core::work::client::NotAccepted;
use node_core::work::spec::JobSpec;
use node_core::{Command, Config, EngineReply, Node, NodeEvent, NodeId, StorageReply, Time};
use pulse::Pulse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, oneshot};

/// Events that a slow listener may be behind before it skips some.
const EVENTS_KEPT: usize = 1024;

/// Reads something off the node.
type Look = Box<dyn FnOnce(&Node, Time) + Send>;

/// Everything that can reach the node's thread, links aside.
enum Item {
    Storage(StorageReply),
    Engine(EngineReply),
    DataChannel(signalling::Reply),
    Circuit(circuits::Reply),
    Command(Command),
    Submit {
        job: JobId,
        spec: Box<JobSpec>,
        answer: oneshot::Sender<Result<(), NotAccepted>>,
    },
    Read(Look),
    /// Percent of a processor for each task.
    Share(u8),
    /// Policy whose refused peers are not talked to.
    Refuse(Arc<Policy>),
    Stop,
}

/// Where storage and engine put their answers; made before them, given to [`start`] after.
pub(crate) struct Inbox {
    sender: mpsc::UnboundedSender<Item>,
    queue: mpsc::UnboundedReceiver<Item>,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        let (sender, queue) = mpsc::unbounded_channel();
        Inbox { sender, queue }
    }

    /// For [`Storage::open`].
    pub(crate) fn storage(&self) -> impl Fn(StorageReply) + Send + Sync + 'static {
        let sender = self.sender.clone();
        // A node that has stopped needs no answer.
        move |reply| drop(sender.send(Item::Storage(reply)))
    }

    /// For [`Engine::start`].
    pub(crate) fn engine(&self) -> impl Fn(EngineReply) + Send + Sync + 'static {
        let sender = self.sender.clone();
        move |reply| drop(sender.send(Item::Engine(reply)))
    }

    /// For [`crate::net::start`].
    pub(crate) fn circuits(&self) -> ToNode {
        let sender = self.sender.clone();
        Arc::new(move |reply| drop(sender.send(Item::Circuit(reply))))
    }

    /// For [`crate::net::start`].
    pub(crate) fn channels(&self) -> Answer {
        let sender = self.sender.clone();
        Arc::new(move |reply| drop(sender.send(Item::DataChannel(reply))))
    }
}

/// The parts of a native node.
pub(crate) struct Parts {
    pub(crate) id: NodeId,
    pub(crate) config: Config,
    pub(crate) seed: [u8; 32],
    pub(crate) storage: Storage,
    pub(crate) engine: Engine,
    /// None for a swarm of one, in one process.
    pub(crate) net: Option<Net>,
}

/// Starts the node's thread.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn start(parts: Parts, inbox: Inbox) -> std::io::Result<NodeHandle> {
    let pulse = Pulse::new();
    let (events, _) = broadcast::channel(EVENTS_KEPT);
    let handle = NodeHandle {
        id: parts.id,
        storage: parts.storage.clone(),
        link: parts.net.as_ref().map(|net| net.link.clone()),
        events: events.clone(),
        sender: inbox.sender,
        pulse: pulse.clone(),
    };
    // Timers alone: sockets and files have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (lives, ended) = std::sync::mpsc::channel();
    let watched = pulse.clone();
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    thread("watchdog").spawn(move || pulse::watch(&watched, &ended))?;
    thread("node").spawn(move || {
        runtime.block_on(run::run(parts, inbox.queue, events, pulse));
        drop(lives);
    })?;
    Ok(handle)
}

/// A handle to a running node; clones share it.
#[derive(Clone)]
pub(crate) struct NodeHandle {
    id: NodeId,
    storage: Storage,
    link: Option<Link>,
    events: broadcast::Sender<NodeEvent>,
    sender: mpsc::UnboundedSender<Item>,
    pulse: Pulse,
}

/// The node has stopped.
#[derive(Debug, thiserror::Error)]
#[error("the node has stopped")]
pub(crate) struct Stopped;

/// Why a job was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmitError {
    #[error(transparent)]
    Refused(#[from] NotAccepted),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why nothing came back to a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("there was no answer in time")]
    Late,
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// A name for what is asked of the node, used once.
pub(crate) fn number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl NodeHandle {
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Reads something off the node, between two inputs.
    pub(crate) async fn read<R: Send + 'static>(
        &self,
        f: impl FnOnce(&Node, Time) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (answer, answered) = oneshot::channel();
        let read = move |node: &Node, now| drop(answer.send(f(node, now)));
        self.sender.send(Item::Read(Box::new(read))).map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)
    }

    /// Returns once the owner has the job durably.
    pub(crate) async fn submit(&self, job: JobId, spec: JobSpec) -> Result<(), SubmitError> {
        let (answer, answered) = oneshot::channel();
        let item = Item::Submit { job, spec: Box::new(spec), answer };
        self.sender.send(item).map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)?.map_err(SubmitError::Refused)
    }

    /// Percent of a processor that each task gets from now on.
    pub(crate) fn share(&self, percent: u8) {
        drop(self.sender.send(Item::Share(percent)));
    }

    /// Ends the connections to peers that this policy refuses, and has none with them from now on.
    pub(crate) fn refuse_by(&self, policy: Arc<Policy>) {
        drop(self.sender.send(Item::Refuse(policy)));
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.sender.is_closed()
    }

    /// Returns when the node's thread has ended, its engine included.
    pub(crate) async fn stopped(&self) {
        self.sender.closed().await;
    }

    /// Longest time since the start for which one input has held the node's thread.
    pub(crate) fn longest_input(&self) -> Duration {
        self.pulse.longest()
    }

    /// How long the node's thread has been at one input, if that is [`STALL`] or longer.
    pub(crate) fn stalled(&self) -> Option<Duration> {
        self.pulse.stalled()
    }

    pub(crate) fn command(&self, command: Command) {
        // A node that has stopped needs no commands.
        drop(self.sender.send(Item::Command(command)));
    }

    /// Gives a command and waits for the event that answers it.
    pub(crate) async fn ask<T>(
        &self,
        command: Command,
        patience: Duration,
        pick: impl Fn(NodeEvent) -> Option<T>,
    ) -> Result<T, Unanswered> {
        let mut events = self.events();
        self.command(command);
        let answered = async {
            loop {
                match events.recv().await {
                    Ok(event) => {
                        if let Some(answer) = pick(event) {
                            return Ok(answer);
                        }
                    }
                    // A skipped event may have been the answer: then the answer is late.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Stopped.into()),
                }
            }
        };
        tokio::time::timeout(patience, answered).await.unwrap_or(Err(Unanswered::Late))
    }

    /// Tells the node of a blob that was put into its storage beside it.
    pub(crate) fn blob_stored(&self, blob: BlobRef) {
        self.command(Command::BlobsStored(vec![(blob.id, blob.len)]));
    }

    /// [`Self::blob_stored`] for many blobs.
    pub(crate) fn blobs_stored(&self, blobs: &[BlobRef]) {
        self.command(Command::BlobsStored(blobs.iter().map(|blob| (blob.id, blob.len)).collect()));
    }

    /// Everything the node tells from now on. A slow reader skips what it missed.
    pub(crate) fn events(&self) -> broadcast::Receiver<NodeEvent> {
        self.events.subscribe()
    }

    /// Addresses at which others reach this node, each with `/p2p/` and its peer id.
    pub(crate) fn addresses(&self) -> Vec<libp2p::Multiaddr> {
        self.link.as_ref().map(|link| link.addresses()).unwrap_or_default()
    }

    /// Waits until all records from an earlier life have been read.
    pub(crate) async fn ready(&self) -> Result<(), Stopped> {
        let mut events = self.events();
        while !self.read(|node, _| node.is_ready()).await? {
            // Woken by `NodeEvent::Ready`, or by anything else: then it is asked again.
            drop(events.recv().await);
        }
        Ok(())
    }

    /// Hands all units back and waits until every result is with its owner, but no longer
    /// than `patience`. Says whether all went.
    pub(crate) async fn drain(&self, patience: Duration) -> bool {
        let mut events = self.events();
        self.command(Command::Drain);
        let drained = async {
            while !self.read(|node, _| node.is_drained()).await.unwrap_or(true) {
                drop(events.recv().await);
            }
        };
        tokio::time::timeout(patience, drained).await.is_ok()
    }

    /// Ends the node's thread, the engine and the links.
    pub(crate) fn stop(&self) {
        drop(self.sender.send(Item::Stop));
    }
}
