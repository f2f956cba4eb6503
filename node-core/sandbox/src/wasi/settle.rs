//! A call in which a task can be suspended: what the pass wants to be done about its globals.

use super::{Answer, Host};
use crate::engine::Control;
use crate::instrument::layout::state;

/// Globals of the instance that makes the call.
pub trait Controls {
    fn get(&mut self, control: Control) -> i64;
    fn set(&mut self, control: Control, value: i64);
}

/// Has the task unwound if it waits, or go on if it was resumed in this call; what the call returns.
pub fn settle(host: &mut Host, answer: Answer, controls: &mut impl Controls) -> u32 {
    let is_resumed = controls.get(Control::State) == i64::from(state::REWIND);
    match answer {
        Answer::Errno(errno) => {
            if is_resumed {
                let slice = controls.get(Control::Refuel);
                controls.set(Control::State, state::RUN.into());
                controls.set(Control::Fuel, slice);
            }
            errno
        }
        Answer::Waits => {
            // Asked again while it still waits, it has used nothing.
            let left = controls.get(if is_resumed { Control::Refuel } else { Control::Fuel });
            host.left = Some(left);
            controls.set(Control::State, state::UNWIND.into());
            controls.set(Control::Fuel, -1);
            0
        }
    }
}
