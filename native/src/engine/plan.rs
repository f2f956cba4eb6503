//! Which order goes where: the queue, and what each slot was given.
//!
//! A slot is given several orders at once, so that it need not wait for its node between tiny
//! tasks. That holds nobody up: a slot hands back what waits behind a long task.

use super::wire::SlotSnapshot;
use bytes::Bytes;
use node_core::content::BlobRef;
use node_core::{BlobId, Taken};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Orders that one slot holds. Our choice: two milliseconds of the tiniest tasks.
const DEPTH: usize = 64;

/// Bytes of orders under way to one slot, if it is more than one order. Our choice: half a
/// pipe, so that giving orders does not have to wait for a slot to take them.
const WINDOW: usize = 32 << 10;

/// A run, from its request to its answer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) run: u64,
    /// The order as it goes over the pipe; kept, since it may have to go again.
    pub(super) frame: Vec<u8>,
    pub(super) time_limit: Duration,
    /// The whole snapshot that it goes on from, or from what is relative to it.
    pub(super) start_base: Option<BlobId>,
    /// The last whole snapshot that it gave.
    pub(super) newest_base: Option<BlobId>,
    /// Nobody waits for it any more.
    pub(super) killed: bool,
    /// A snapshot was asked for while it was on its way: whether it then stops.
    pub(super) asked: Option<bool>,
    pub(super) paused: bool,
    /// It waits for other threads.
    pub(super) waits: bool,
    /// Since when it stands still, if it does: that is not its time.
    pub(super) still: Option<Instant>,
    /// It was told to end then; if it does not, its process is.
    pub(super) ending: Option<Instant>,
}

impl Job {
    pub(super) fn new(run: u64, frame: Vec<u8>, time_limit: Duration) -> Job {
        let (start_base, newest_base, asked, still, ending) = Default::default();
        let (killed, paused, waits) = Default::default();
        Job { run, frame, time_limit, start_base, newest_base, killed, asked, paused, waits, still, ending }
    }

    /// A snapshot of it, under its name; `None` if it is relative to one that there is not.
    pub(super) fn named(&mut self, taken: SlotSnapshot, blob: BlobRef, bytes: Bytes) -> Option<Taken> {
        let SlotSnapshot { written: _, relative, root, fuel, pause_us, marks } = taken;
        let base = match relative {
            true => Some(self.newest_base.or(self.start_base)?),
            false => {
                self.newest_base = Some(blob.id);
                None
            }
        };
        Some(Taken { blob, bytes, base, root, fuel, pause_us, marks })
    }
}

/// Jobs that a slot was given and has not answered, and how far it is.
#[derive(Debug)]
pub(super) struct Given {
    /// In the order in which the slot takes them. The first is the one it is at.
    pub(super) jobs: VecDeque<Job>,
    pub(super) bytes: usize,
    /// The whole snapshot that lies ready in it.
    holds: Option<BlobId>,
    /// It is at something long and takes nothing more until that is over.
    pub(super) long: bool,
    /// Activity of the slot, and since when.
    pub(super) doing: Doing,
    pub(super) since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Its process is coming up.
    Starting,
    Nothing,
    /// Compiling a program, or waiting for another that does.
    Preparing,
    Running,
}

impl Given {
    pub(super) fn new(now: Instant) -> Self {
        let (doing, since) = (Doing::Starting, now);
        Given { jobs: VecDeque::new(), bytes: 0, holds: None, long: false, doing, since }
    }

    fn takes(&self, job: &Job) -> bool {
        !self.long
            && self.jobs.len() < DEPTH
            && (self.jobs.is_empty() || self.bytes + job.frame.len() <= WINDOW)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn give(&mut self, job: Job, now: Instant) {
        self.holds = None;
        self.bytes += job.frame.len();
        self.jobs.push_back(job);
        if self.doing == Doing::Nothing {
            (self.doing, self.since) = (Doing::Running, now);
        }
    }

    pub(super) fn ready(&mut self, now: Instant) {
        self.next(now);
    }

    pub(super) fn preparing(&mut self, begins: bool, now: Instant) {
        self.doing = if begins { Doing::Preparing } else { Doing::Running };
        self.since = now;
        // Compiling takes long, and what comes behind may be another program.
        self.long = true;
    }

    /// The answer to `run` came.
    pub(super) fn answered(&mut self, run: u64, now: Instant) -> Option<Job> {
        let job = self.take(run)?;
        self.long = false;
        self.next(now);
        Some(job)
    }

    /// Marks the snapshot that `job` goes on from as ready in the slot, unless other jobs came after it.
    pub(super) fn prepared(&mut self, job: &Job) {
        self.holds = job.start_base.filter(|_| self.jobs.is_empty());
    }

    /// How little is lost if `job` goes there.
    fn fits(&self, job: &Job) -> u8 {
        match self.holds {
            None => 1,
            holds if holds == job.start_base => 0,
            _ => 2,
        }
    }

    /// The slot hands `run` back unbegun.
    pub(super) fn returned(&mut self, run: u64) -> Option<Job> {
        let job = self.take(run)?;
        // Its answer may have come before: then there is nothing long any more.
        self.long = !self.jobs.is_empty();
        Some(job)
    }

    fn take(&mut self, run: u64) -> Option<Job> {
        let at = self.jobs.iter().position(|job| job.run == run)?;
        let job = self.jobs.remove(at)?;
        self.bytes -= job.frame.len();
        if self.jobs.is_empty() && self.doing == Doing::Running {
            self.doing = Doing::Nothing;
        }
        Some(job)
    }

    fn next(&mut self, now: Instant) {
        self.doing = if self.jobs.is_empty() { Doing::Nothing } else { Doing::Running };
        self.since = now;
    }
}

/// Which of `slots` should get `job`: the one with the least to do; then one that has what it goes on
/// from, and then a running one.
pub(super) fn choose<'a>(
    slots: impl Iterator<Item = (usize, Option<&'a Given>)>,
    job: &Job,
) -> Option<usize> {
    let open = slots.filter(|(_, given)| given.is_none_or(|given| given.takes(job)));
    let rank = |given: &Given| (given.jobs.len(), given.fits(job), 0);
    open.min_by_key(|(_, given)| given.map_or((0, 1, 1), rank)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(run: u64) -> Job {
        Job::new(run, vec![0; 100], Duration::from_secs(1))
    }

    fn working(now: Instant, runs: std::ops::Range<u64>) -> Given {
        let mut given = Given::new(now);
        given.ready(now);
        runs.for_each(|run| given.give(job(run), now));
        given
    }

    fn choice(slots: &[Option<Given>]) -> Option<usize> {
        choose(slots.iter().map(Option::as_ref).enumerate(), &job(99))
    }

    #[test]
    fn a_snapshot_is_named_by_its_bytes_and_its_base_by_what_was_whole_before() {
        let named = |job: &mut Job, bytes: &[u8], relative| {
            let written = Ok(bytes.len() as u64);
            let taken = SlotSnapshot { written, relative, root: [1; 32], fuel: 2, pause_us: 3, marks: None };
            job.named(taken, BlobRef::of(bytes), Bytes::new())
        };
        let mut fresh = job(1);
        assert!(named(&mut fresh, b"a difference", true).is_none(), "there is nothing that it differs from");
        let whole = named(&mut fresh, b"whole", false).unwrap();
        assert_eq!((whole.blob, whole.base), (BlobRef::of(b"whole"), None));
        let next = named(&mut fresh, b"a difference", true).unwrap();
        assert_eq!((next.blob, next.base), (BlobRef::of(b"a difference"), Some(whole.blob.id)));
        let start = BlobId([7; 32]);
        let mut moved = Job { start_base: Some(start), ..job(2) };
        assert_eq!(named(&mut moved, b"a difference", true).unwrap().base, Some(start));
    }

    #[test]
    fn work_spreads_before_it_piles_up() {
        let now = Instant::now();
        assert_eq!(choice(&[Some(working(now, 0..1)), None]), Some(1), "a new process before a second order");
        assert_eq!(choice(&[None, Some(working(now, 0..0))]), Some(1), "an idle process before a new one");
        assert_eq!(choice(&[Some(working(now, 0..3)), Some(working(now, 3..5))]), Some(1));
    }

    #[test]
    fn a_task_goes_where_what_it_goes_on_from_lies() {
        let now = Instant::now();
        let of = |run, n: u8| Job { start_base: Some(BlobId([n; 32])), ..job(run) };
        let holding = |n| {
            let mut given = working(now, 0..0);
            given.give(of(1, n), now);
            let job = given.answered(1, now).expect("it was given");
            given.prepared(&job);
            Some(given)
        };
        let choice =
            |slots: &[Option<Given>], job: &Job| choose(slots.iter().map(Option::as_ref).enumerate(), job);
        let slots = [Some(working(now, 0..0)), holding(7), holding(8), None];
        assert_eq!(choice(&slots, &of(2, 8)), Some(2));
        assert_eq!(choice(&slots, &of(2, 9)), Some(0), "others leave it alone");
        assert_eq!(choice(&[holding(7), None], &job(2)), Some(1), "even at the price of a process");
        let mut used = holding(7).expect("it holds it");
        used.give(job(2), now);
        used.answered(2, now);
        assert_eq!(
            choice(&[Some(used), holding(7)], &of(3, 7)),
            Some(1),
            "what was run there took its place"
        );
    }

    #[test]
    fn a_slot_takes_no_more_than_its_pipe_and_its_depth_hold() {
        let now = Instant::now();
        assert_eq!(choice(&[Some(working(now, 0..64))]), None);
        let mut given = working(now, 0..1);
        let large = Job { frame: vec![0; WINDOW], ..job(7) };
        assert!(!given.takes(&large));
        given.answered(0, now);
        assert!(given.takes(&large), "an order of any size goes to a slot that has none");
    }

    #[test]
    fn a_slot_with_a_long_task_gets_nothing_until_it_is_over() {
        let now = Instant::now();
        let mut given = working(now, 0..3);
        assert_eq!(given.returned(1).map(|job| job.run), Some(1));
        assert_eq!(given.returned(2).map(|job| job.run), Some(2));
        assert!(!given.takes(&job(9)));
        given.answered(0, now);
        assert!(given.takes(&job(9)));
    }

    #[test]
    fn orders_that_come_back_after_the_answer_do_not_close_the_slot() {
        let now = Instant::now();
        let mut given = working(now, 0..2);
        given.answered(0, now);
        given.returned(1);
        assert!(given.takes(&job(9)));
        assert_eq!(given.doing, Doing::Nothing);
    }

    #[test]
    fn the_clock_starts_with_the_task_and_not_with_its_order_or_its_program() {
        let start = Instant::now();
        let later = |s| start + Duration::from_secs(s);
        let mut given = Given::new(start);
        given.give(job(1), start);
        given.give(job(2), start);
        assert_eq!((given.doing, given.since), (Doing::Starting, start));
        given.ready(later(1));
        assert_eq!((given.doing, given.since), (Doing::Running, later(1)));
        given.preparing(true, later(2));
        given.preparing(false, later(9));
        assert_eq!((given.doing, given.since), (Doing::Running, later(9)));
        given.answered(1, later(10));
        assert_eq!((given.doing, given.since), (Doing::Running, later(10)), "the next one began");
        given.answered(2, later(11));
        assert_eq!((given.doing, given.since), (Doing::Nothing, later(11)));
        given.give(job(3), later(60));
        assert_eq!((given.doing, given.since), (Doing::Running, later(60)), "idle time is nobody's");
    }
}
