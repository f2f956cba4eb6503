//! The donor's policy in a tab: what the page was told, what a tab can know, and what follows.
//!
//! [`node_core::trust::policy`] says what the policy means, as on a server. A tab knows its clock, in some
//! browsers its battery, and, where its person allows that, whether somebody uses the computer. Unknown
//! conditions stop nothing.

mod act;
mod setting;

pub use act::{Acts, Tab};
pub use setting::{Fault, Setting, faults_json, read};

use node_core::trust::policy::Day;

/// Conditions that the page knows and its Worker does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    pub on_battery: Option<bool>,
    pub charge_pct: Option<f64>,
    /// Since when nobody has used this computer, milliseconds since 1970; in the future while somebody
    /// does.
    pub quiet_since_ms: Option<f64>,
}

/// Local time and the other one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    pub day: Day,
    /// Minute of the day, 0 to 1439.
    pub minute: u16,
    /// Milliseconds since 1970.
    pub wall_ms: f64,
}

impl Clock {
    /// As JavaScript counts: days from Sunday on.
    pub fn new(weekday: u32, hours: u32, minutes: u32, wall_ms: f64) -> Clock {
        let day = Day::ALL[(weekday as usize + 6) % 7];
        // Both are in bounds unless the browser is broken.
        let minute = u16::try_from(hours.min(23) * 60 + minutes.min(59)).unwrap_or(0);
        Clock { day, minute, wall_ms }
    }
}

#[cfg(test)]
mod tests;
