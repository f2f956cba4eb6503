//! Fingers: for each power of two, the owner of the point so far on. They only shorten the way; a
//! wrong one costs a hop.

use super::lookup::Purpose;
use super::message::{Mode, Timer};
use super::{Rcx, Ring};
use crate::circle::Located;
use crate::circle::MemberId;
use std::time::Duration;

/// Between two fingers of a member that has just come. Our choice: all within a few seconds.
const FIRST: Duration = Duration::from_millis(250);

impl Ring {
    /// Looks at the next finger. The old one is asked first: it knows whether it still owns the
    /// point, which is one question in most cases (paper `chord` looks up each anew).
    pub(super) fn fix(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id).filter(|member| member.is_in()) else { return };
        let low = member.lowest_bit();
        if member.bit >= 127 {
            member.all_fixed = true;
            member.bit = 0;
        }
        if member.whole || low > 127 || low == 0 {
            member.fingers.clear();
            return self.fix_later(id, cx);
        }
        member.bit = (member.bit + 1).max(low);
        let (bit, hint) = (member.bit, member.finger(member.bit));
        self.look(id.ring, id.point.jump(bit), Purpose::Finger(id, bit), Mode::Iterative, hint, cx);
    }

    pub(super) fn fixed(&mut self, id: MemberId, bit: u8, found: Option<&Located>, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if let Some(found) = found {
            let far = id.point.to(found.owner.point);
            member.set_finger(bit, found.owner);
            // Nobody lies between the point and the owner, so it is the next fingers as well.
            for bit in bit + 1..128 {
                if far < 1 << bit {
                    break;
                }
                member.set_finger(bit, found.owner);
                member.bit = bit;
            }
        }
        self.fix_later(id, cx);
    }

    fn fix_later(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get(&id) else { return };
        let fix = self.config.fix;
        let early = Duration::from_micros(cx.rng.below(fix.as_micros() as u64 / 5));
        let first = !member.all_fixed && !member.whole;
        cx.set_timer(Timer::Fix(id), if first { FIRST } else { fix - early });
    }
}
