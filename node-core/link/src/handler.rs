//! One connection: opens a stream a channel, writes what is queued, reads what comes, notices
//! when the other side is silent, gone or wrong. Runs in the connection's own task.

use crate::clock::Ticks;
use crate::frame::{BATCH, ReadEnd, Reader, Writer};
use crate::memory::Share;
use crate::queue::{End, Queue};
use crate::{BLOB_PROTOCOL, CONTROL_PROTOCOL, LinkOptions};
use bytes::Bytes;
use futures::future::Either;
use futures::{FutureExt, ready};
use futures_timer::Delay;
use libp2p::Stream;
use libp2p::core::upgrade::{ReadyUpgrade, SelectUpgrade};
use libp2p::swarm::handler::{
    ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound,
};
use libp2p::swarm::{
    ConnectionHandler, ConnectionHandlerEvent, StreamProtocol, StreamUpgradeError, SubstreamProtocol,
};
use node_core::Channel;
use node_core::wire::MAX_FRAME;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Report of a connection to the runner.
#[derive(Debug)]
pub(crate) enum Report {
    /// Both streams stand.
    Ready { queue: Arc<Queue>, dialled: bool },
    /// The peer has said something, for the first time.
    Begun,
    /// The peer does not speak one of the two protocols. Said again after a while, in case
    /// nobody had heard by then what it speaks instead.
    NoProtocol { again: bool },
    /// Frames that came, in order.
    Frames(Vec<(Channel, Bytes)>),
    /// Nothing has come for a while.
    Quiet,
    /// Nothing more comes from this connection, which can be closed.
    Gone(Gone),
}

/// Why a connection is over.
#[derive(Debug)]
pub(crate) enum Gone {
    /// It happens.
    Lost(String),
    /// The peer did what a correct peer does not do.
    Fault(String),
}

/// How long a stream that broke waits for its connection to break: when it does, the peer
/// vanished; when it does not, the peer did it on purpose. Also how long a peer may take to
/// say what it speaks.
const SECOND_LOOK: Duration = Duration::from_millis(500);
/// How long a closed session waits for the peer to have read everything.
const LINGER: Duration = Duration::from_secs(1);
/// Most that one report carries of a channel: large enough to be cheap, small enough to be fair.
const REPORT_FRAMES: usize = 256;
const REPORT_BYTES: usize = 256 << 10;

const CHANNELS: [Channel; 2] = [Channel::Control, Channel::Blob];

type Protocol = ReadyUpgrade<StreamProtocol>;
type Event = ConnectionHandlerEvent<Protocol, Channel, Report>;

pub(crate) struct Handler {
    queue: Arc<Queue>,
    /// Whether this side dialled.
    dialled: bool,
    open_timeout: Duration,
    silence: Duration,
    to_open: Vec<Channel>,
    writers: [Option<Writer<Stream>>; 2],
    readers: [Option<Reader<Stream>>; 2],
    /// Streams that the peer ended between two frames.
    finished: usize,
    reports: VecDeque<Report>,
    state: State,
    ticks: Ticks,
    /// Ticks in a row without a byte from the peer, and how many are too many.
    silent: u32,
    silent_max: u32,
    /// Silent ticks after which [`Report::Quiet`] is made.
    quiet: u32,
    /// Ticks in a row in which nothing of what waits was written, by channel.
    stuck: [u32; 2],
    /// Frames that a reader had read at the last tick, and ticks in a row within one frame, by channel.
    unfinished: [(u64, u32); 2],
    /// How many such ticks are too many.
    patience: u32,
    /// Frames that have come in part.
    parts: Share,
    /// Why the connection is over unless it breaks by itself before the delay.
    suspicion: Option<(Delay, Gone)>,
    begun: bool,
    scratch: Vec<Bytes>,
}

#[derive(PartialEq)]
enum State {
    /// Streams are being opened. Nothing is read, so that no frame comes before `Ready`.
    Opening,
    Open,
    /// The session ends from this side: `Writing` what is left, then waiting for the peer.
    Writing,
    Lingering,
    Over,
}

impl Handler {
    pub(crate) fn new(options: &LinkOptions, dialled: bool, memory: impl Fn() -> Share) -> Self {
        Handler {
            queue: Arc::new(Queue::new(options.send_queue_bytes, memory())),
            dialled,
            open_timeout: options.connect_timeout,
            silence: options.silence(),
            to_open: vec![Channel::Blob, Channel::Control],
            writers: [None, None],
            readers: [None, None],
            finished: 0,
            reports: VecDeque::new(),
            state: State::Opening,
            ticks: Ticks::new(options.heartbeat),
            silent: 0,
            silent_max: options.missed_heartbeats,
            quiet: options.quiet_heartbeats,
            stuck: [0; 2],
            unfinished: [(0, 0); 2],
            patience: ticks_in(options.patience, options.heartbeat),
            parts: memory(),
            suspicion: None,
            begun: false,
            scratch: Vec::new(),
        }
    }

    fn over(&mut self, why: Gone) {
        let why = match (&self.state, self.suspicion.take()) {
            (State::Over, _) => return,
            // This side wanted it, however it ended.
            (State::Writing | State::Lingering, Some((_, ours))) => ours,
            _ => why,
        };
        self.state = State::Over;
        self.reports.push_back(Report::Gone(why));
    }

    /// It is over unless the whole connection breaks within a moment.
    fn suspect(&mut self, why: Gone) {
        if self.state != State::Over && self.suspicion.is_none() {
            self.suspicion = Some((Delay::new(SECOND_LOOK), why));
        }
    }

    fn on_tick(&mut self) {
        if self.state == State::Opening {
            return; // has its own time limit
        }
        let heard = self.readers.iter_mut().flatten().fold(false, |any, r| r.heard() | any);
        self.silent = if heard { 0 } else { self.silent + 1 };
        if self.silent > self.silent_max {
            let s = self.silence.as_secs_f32();
            self.over(Gone::Lost(format!("nothing was heard of it for {s:.1} s")));
            return;
        }
        if self.silent == self.quiet {
            self.reports.push_back(Report::Quiet);
        }
        let wrote = self.writers.each_mut().map(|writer| writer.as_mut().is_some_and(Writer::wrote));
        if let Some(channel) = self.stuck_channel(wrote) {
            let (name, bytes) = (name(channel), self.queue.waiting(channel));
            self.over(Gone::Lost(format!(
                "it reads too slowly: it takes nothing of {bytes} bytes that wait for its {name} stream"
            )));
            return;
        }
        if let Some(channel) = self.unfinished_frame() {
            self.over(Gone::Fault(format!("does not finish a {} frame", name(channel))));
            return;
        }
        if let ([false, false], Some(control)) = (wrote, &mut self.writers[0])
            && control.is_idle()
            // The first word says that this is the session.
            && self.queue.is_chosen()
        {
            control.add(Bytes::new());
        }
    }

    /// The channel on which the peer has taken nothing for too long, though something waits for it. Of each,
    /// whether something was written since the last tick.
    fn stuck_channel(&mut self, wrote: [bool; 2]) -> Option<Channel> {
        let mut late = None;
        for ((ticks, channel), wrote) in self.stuck.iter_mut().zip(CHANNELS).zip(wrote) {
            let idle = self.writers[channel as usize].as_ref().is_none_or(Writer::is_idle);
            let waits = !idle || self.queue.waiting(channel) > 0;
            *ticks = if waits && !wrote { *ticks + 1 } else { 0 };
            if *ticks > self.patience {
                late = Some(channel);
            }
        }
        late
    }

    /// The channel on which a frame has been under way for too long.
    fn unfinished_frame(&mut self) -> Option<Channel> {
        let mut late = None;
        for ((reader, (frames, ticks)), channel) in
            self.readers.iter().zip(&mut self.unfinished).zip(CHANNELS)
        {
            let Some(reader) = reader else { continue };
            let within = reader.part() > 0 && reader.frames() == *frames;
            *ticks = if within { *ticks + 1 } else { 0 };
            *frames = reader.frames();
            if *ticks > self.patience {
                late = Some(channel);
            }
        }
        late
    }

    /// Writes all that waits. Ready when nothing is left and everything is flushed.
    fn poll_writers(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut all = Poll::Ready(Ok(()));
        for (writer, channel) in self.writers.iter_mut().zip(CHANNELS) {
            let Some(writer) = writer else { continue };
            loop {
                match writer.poll_write(cx)? {
                    Poll::Pending => {
                        all = Poll::Pending;
                        break;
                    }
                    Poll::Ready(()) => self.queue.take(channel, BATCH, &mut self.scratch),
                }
                if self.scratch.is_empty() {
                    if writer.poll_flush(cx)?.is_pending() {
                        all = Poll::Pending;
                    }
                    break;
                }
                self.scratch.drain(..).for_each(|frame| writer.add(frame));
            }
        }
        all
    }

    fn poll_close_writers(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for writer in self.writers.iter_mut().flatten() {
            ready!(writer.poll_close(cx))?;
        }
        self.writers = [None, None];
        Poll::Ready(Ok(()))
    }

    /// Reads what is here, up to what one report carries.
    fn read(&mut self, cx: &mut Context<'_>) -> Vec<(Channel, Bytes)> {
        let mut frames = Vec::new();
        for channel in CHANNELS {
            let (mut count, mut bytes) = (0, 0);
            while let Some(reader) = &mut self.readers[channel as usize] {
                if count == REPORT_FRAMES || bytes >= REPORT_BYTES {
                    break;
                }
                match reader.poll_frame(cx) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(frame)) => {
                        count += 1;
                        bytes += frame.len();
                        frames.push((channel, frame));
                    }
                    Poll::Ready(Err(end)) => {
                        self.readers[channel as usize] = None;
                        self.on_read_end(channel, end);
                    }
                }
            }
        }
        frames
    }

    fn on_read_end(&mut self, channel: Channel, end: ReadEnd) {
        let name = name(channel);
        match end {
            // On one stream before the other: what the other still holds is read first.
            ReadEnd::Clean => {
                self.finished += 1;
                if self.finished == CHANNELS.len() {
                    self.over(Gone::Lost("the other side closed the connection".into()));
                }
            }
            ReadEnd::Truncated { got, expected } => self.suspect(Gone::Fault(format!(
                "ended its {name} stream within a frame ({got} of {expected} bytes came)"
            ))),
            ReadEnd::Oversized { len } => self.over(Gone::Fault(format!(
                "announced a {name} frame of {len} bytes; at most {MAX_FRAME} are allowed"
            ))),
            ReadEnd::Io(e) => self.suspect(Gone::Lost(format!("reading its {name} stream failed: {e}"))),
        }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.ticks.poll_tick(cx).is_ready() {
            self.on_tick();
        }
        self.queue.register(cx.waker());
        match (&self.state, self.queue.end()) {
            (State::Open, Some(End::Close(why))) => {
                self.state = State::Writing;
                self.suspicion = Some((Delay::new(LINGER), Gone::Lost(why)));
            }
            (State::Open, Some(End::Overflow { bytes })) => {
                self.over(Gone::Lost(format!("it reads too slowly: {bytes} bytes were waiting for it")));
            }
            _ => {}
        }
        match self.poll_writers(cx) {
            Poll::Ready(Ok(())) if self.state == State::Writing => match self.poll_close_writers(cx) {
                Poll::Ready(_) => self.state = State::Lingering,
                Poll::Pending => {}
            },
            Poll::Ready(Err(e)) => {
                self.writers = [None, None];
                self.suspect(Gone::Lost(format!("writing to it failed: {e}")));
            }
            _ => {}
        }
        let frames = self.read(cx);
        if !self.parts.set(self.readers.iter().flatten().map(Reader::part).sum()) {
            let parts = self.parts.own();
            self.over(Gone::Lost(format!(
                "frames of it and others came in part, and take all memory that they may ({parts} bytes of it)"
            )));
        }
        if !frames.is_empty() && matches!(self.state, State::Writing | State::Lingering) {
            cx.waker().wake_by_ref(); // there may be more to throw away
        } else if !frames.is_empty() && self.begun {
            return notify(Report::Frames(frames));
        } else if !frames.is_empty() || (!self.begun && self.readers.iter().flatten().any(Reader::begun)) {
            self.begun = true;
            if !frames.is_empty() {
                self.reports.push_front(Report::Frames(frames));
            }
            return notify(Report::Begun);
        }
        if let Some((delay, _)) = &mut self.suspicion
            && delay.poll_unpin(cx).is_ready()
            && let Some((_, why)) = self.suspicion.take()
        {
            self.over(why);
        }
        match self.reports.pop_front() {
            Some(report) => notify(report),
            None => Poll::Pending,
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Infallible;
    type ToBehaviour = Report;
    type InboundProtocol = SelectUpgrade<Protocol, Protocol>;
    type OutboundProtocol = Protocol;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Channel;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol> {
        let protocols = SelectUpgrade::new(protocol(Channel::Control), protocol(Channel::Blob));
        SubstreamProtocol::new(protocols, ()).with_timeout(self.open_timeout)
    }

    fn connection_keep_alive(&self) -> bool {
        self.state != State::Over
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(channel) = self.to_open.pop() {
            let protocol = SubstreamProtocol::new(protocol(channel), channel).with_timeout(self.open_timeout);
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol });
        }
        if self.state == State::Opening && self.writers.iter().all(Option::is_some) {
            self.state = State::Open;
            return notify(Report::Ready { queue: self.queue.clone(), dialled: self.dialled });
        }
        if let Some(report) = self.reports.pop_front() {
            return notify(report);
        }
        match self.state {
            State::Over => Poll::Pending,
            State::Opening => {
                let Some((delay, _)) = &mut self.suspicion else { return Poll::Pending };
                ready!(delay.poll_unpin(cx));
                self.suspicion = None;
                notify(Report::NoProtocol { again: true })
            }
            State::Open | State::Writing | State::Lingering => self.poll_open(cx),
        }
    }

    fn on_behaviour_event(&mut self, event: Infallible) {
        match event {}
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<Self::InboundProtocol, Protocol, (), Channel>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, .. }) => {
                let (channel, stream) = match protocol {
                    Either::Left(stream) => (Channel::Control, stream),
                    Either::Right(stream) => (Channel::Blob, stream),
                };
                let reader = &mut self.readers[channel as usize];
                if reader.is_some() {
                    self.over(Gone::Fault(format!("opened a second {} stream", name(channel))));
                } else {
                    *reader = Some(Reader::new(stream));
                }
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol, info }) => {
                self.writers[info as usize] = Some(Writer::new(protocol));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { error, info }) => match error {
                StreamUpgradeError::NegotiationFailed if self.suspicion.is_none() => {
                    self.suspicion = Some((Delay::new(SECOND_LOOK), Gone::Lost(String::new())));
                    self.reports.push_back(Report::NoProtocol { again: false });
                }
                StreamUpgradeError::NegotiationFailed => {}
                StreamUpgradeError::Timeout => {
                    self.over(Gone::Lost(format!("it did not answer on its {} stream", name(info))));
                }
                StreamUpgradeError::Io(e) => {
                    self.over(Gone::Lost(format!("opening its {} stream failed: {e}", name(info))));
                }
                StreamUpgradeError::Apply(never) => match never {},
            },
            _ => {}
        }
    }
}

fn notify(report: Report) -> Poll<Event> {
    Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(report))
}

fn protocol(channel: Channel) -> Protocol {
    ReadyUpgrade::new(StreamProtocol::new(match channel {
        Channel::Control => CONTROL_PROTOCOL,
        Channel::Blob => BLOB_PROTOCOL,
    }))
}

fn name(channel: Channel) -> &'static str {
    match channel {
        Channel::Control => "control",
        Channel::Blob => "blob",
    }
}

/// Ticks of this length in a time, rounded up.
fn ticks_in(time: Duration, tick: Duration) -> u32 {
    let ticks = time.as_nanos().div_ceil(tick.as_nanos().max(1));
    u32::try_from(ticks).unwrap_or(u32::MAX)
}
