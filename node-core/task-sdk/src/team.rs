//! Teams: threads with ranks that do the same in steps, in the style of MPI.
//!
//! Rank 0 is the thread that the job begins with. It begins the others, whose standard input is the line `team 0`,
//! and sends each of them the list of all. A value between members may have any length: it goes in as many messages as
//! it needs.

mod parts;
mod tree;

use crate::{Error, Result, Thread, files, me, messages, spawn};
use serde::{Serialize, de::DeserializeOwned};

/// Threads `0..size` by rank, and the place of this one among them.
///
/// All members make the same calls in the same order. Members may send each other messages of their own between these
/// calls, but a read from any thread may meet the message of a call that another member is in already.
pub struct Team {
    rank: usize,
    threads: Vec<Thread>,
    /// Calls that this member has begun, so that members that are out of step are told.
    calls: u32,
}

impl Team {
    /// A team of this many members, at least 1. In thread 0 it begins the others, with these arguments; in those it
    /// returns their place. A program has one team, and the input of its threads is taken.
    ///
    /// # Errors
    /// Those of [`spawn`]; [`Error::Team`] in a thread that something else began.
    pub fn of<A: AsRef<str>>(size: u32, arguments: impl IntoIterator<Item = A>) -> Result<Team> {
        Team::open(size, arguments, true)
    }

    /// As [`Team::of`], but smaller if the job may have no more threads.
    pub(crate) fn up_to<A: AsRef<str>>(size: u32, arguments: impl IntoIterator<Item = A>) -> Result<Team> {
        Team::open(size, arguments, false)
    }

    fn open<A: AsRef<str>>(size: u32, arguments: impl IntoIterator<Item = A>, exact: bool) -> Result<Team> {
        let me = me()?;
        if me != FOUNDER {
            return Team::joined(me);
        }
        let arguments: Vec<A> = arguments.into_iter().collect();
        let mut threads = vec![me];
        for _ in 1..size {
            match spawn(&arguments, INPUT.as_bytes()) {
                Ok(thread) => threads.push(thread),
                Err(Error::ThreadQuota) if !exact => break,
                Err(error) => return Err(error),
            }
        }
        for thread in &threads[1..] {
            messages::send(*thread, &threads)?;
        }
        Ok(Team { rank: 0, threads, calls: 0 })
    }

    fn joined(me: Thread) -> Result<Team> {
        let input = std::io::read_to_string(std::io::stdin());
        if input.ok().as_deref() != Some(INPUT) {
            return Err(Error::Team(
                "this thread was not begun by a team, or has joined one already: call `Team::of` once in each thread, \
                 and begin threads by nothing else",
            ));
        }
        let threads: Vec<Thread> = messages::recv(FOUNDER)?.ok_or(Error::MemberEnded(FOUNDER))?;
        let rank = threads.iter().position(|thread| *thread == me);
        let rank = rank.ok_or(Error::Team("thread 0 has sent another team's list: call `Team::of` once"))?;
        Ok(Team { rank, threads, calls: 0 })
    }

    /// Place of this thread, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.threads.len()
    }

    /// Whether this is rank 0.
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// All members, by rank.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Gives every member the value of rank 0; what the others bring is left out.
    ///
    /// # Errors
    /// [`Error::Team`] if rank 0 brings `None`; [`Error::MemberEnded`] and [`Error::OutOfStep`], as all calls.
    pub fn broadcast<T: Serialize + DeserializeOwned>(&mut self, value: Option<T>) -> Result<T> {
        self.calls += 1;
        let value = match tree::above(self.rank) {
            Some(above) => self.recv(above)?,
            None => value.ok_or(Error::Team("rank 0 has nothing to broadcast: give it `Some(value)`"))?,
        };
        let below: Vec<usize> = tree::below(self.rank, self.size()).collect();
        for rank in below.into_iter().rev() {
            self.send(rank, &value)?;
        }
        Ok(value)
    }

    /// Gives each member its part: rank 0 brings one for each, by rank.
    ///
    /// # Errors
    /// [`Error::Team`] if rank 0 brings another number of parts.
    pub fn scatter<T: Serialize + DeserializeOwned>(&mut self, parts: Option<Vec<T>>) -> Result<T> {
        self.calls += 1;
        if !self.is_first() {
            return self.recv(0);
        }
        let mut parts = parts.filter(|parts| parts.len() == self.size()).ok_or(Error::Team(
            "rank 0 has not one part for each member: `scatter` needs as many parts as the team has members",
        ))?;
        while let Some(part) = parts.pop() {
            if parts.is_empty() {
                return Ok(part);
            }
            self.send(parts.len(), &part)?;
        }
        Err(Error::Team("a team without members has no parts"))
    }

    /// Collects the value of each member, by rank; `None` in all but rank 0.
    ///
    /// # Errors
    /// [`Error::MemberEnded`] and [`Error::OutOfStep`].
    pub fn gather<T: Serialize + DeserializeOwned>(&mut self, value: T) -> Result<Option<Vec<T>>> {
        self.calls += 1;
        if !self.is_first() {
            self.send(0, &value)?;
            return Ok(None);
        }
        let mut values = vec![value];
        for rank in 1..self.size() {
            values.push(self.recv(rank)?);
        }
        Ok(Some(values))
    }

    /// Joins the values of all members to one, by a tree; `None` in all but rank 0. Values are joined in the order of
    /// ranks, in the same way each time: sums of floats are the same in each run of a team of this size.
    ///
    /// # Errors
    /// [`Error::MemberEnded`] and [`Error::OutOfStep`].
    pub fn reduce<T: Serialize + DeserializeOwned>(
        &mut self,
        mut value: T,
        mut join: impl FnMut(T, T) -> T,
    ) -> Result<Option<T>> {
        self.calls += 1;
        for rank in tree::below(self.rank, self.size()) {
            value = join(value, self.recv(rank)?);
        }
        let Some(above) = tree::above(self.rank) else { return Ok(Some(value)) };
        self.send(above, &value)?;
        Ok(None)
    }

    /// Joins the values of all members to one, as [`Team::reduce`], and gives it to every member.
    ///
    /// # Errors
    /// [`Error::MemberEnded`] and [`Error::OutOfStep`].
    pub fn all_reduce<T: Serialize + DeserializeOwned>(
        &mut self,
        value: T,
        join: impl FnMut(T, T) -> T,
    ) -> Result<T> {
        let joined = self.reduce(value, join)?;
        self.broadcast(joined)
    }

    /// Waits until every member is in this call.
    ///
    /// # Errors
    /// [`Error::MemberEnded`] and [`Error::OutOfStep`].
    pub fn barrier(&mut self) -> Result<()> {
        self.all_reduce((), |(), ()| ())
    }

    /// Begins a call that a module beside this one makes.
    pub(crate) fn step(&mut self) {
        self.calls += 1;
    }

    pub(crate) fn send<T: Serialize + ?Sized>(&self, rank: usize, value: &T) -> Result<()> {
        let bytes = parts::head(self.calls, &files::encode(value)?);
        parts::split(&bytes).try_for_each(|part| messages::send_bytes(self.threads[rank], &part))
    }

    pub(crate) fn recv<T: DeserializeOwned>(&self, rank: usize) -> Result<T> {
        let thread = self.threads[rank];
        let first = messages::recv_bytes(thread)?.ok_or(Error::MemberEnded(thread))?;
        self.rest(thread, first)
    }

    /// The value that comes first, with the rank of its sender.
    pub(crate) fn recv_any<T: DeserializeOwned>(&self) -> Result<(usize, T)> {
        let (thread, first) = messages::recv_any_bytes()?;
        let rank = self.threads.iter().position(|its| *its == thread);
        let rank = rank.ok_or(Error::Team("a thread that is no member has sent a message to the team"))?;
        Ok((rank, self.rest(thread, first)?))
    }

    /// A value whose first part has come.
    fn rest<T: DeserializeOwned>(&self, thread: Thread, first: Vec<u8>) -> Result<T> {
        let mut value = parts::Value::default();
        let mut is_whole = value.add(&first);
        while !is_whole {
            let part = messages::recv_bytes(thread)?.ok_or(Error::MemberEnded(thread))?;
            is_whole = value.add(&part);
        }
        let (theirs, bytes) = value.open().ok_or(Error::Team(
            "a member has sent a message of its own where a call of the team was expected: receive it before the call",
        ))?;
        if theirs != self.calls {
            return Err(Error::OutOfStep { thread, theirs, ours: self.calls });
        }
        files::decode(|| format!("the value of thread {}", thread.0), bytes)
    }
}

/// Thread that begins the others.
const FOUNDER: Thread = Thread(0);

/// Input of the others.
const INPUT: &str = "team 0\n";
