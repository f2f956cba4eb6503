//! The Manyhands node in a dedicated Worker of a browser: driver number two.
//!
//! `www/node-worker.js` passes the page's messages in; what the page is told goes out from
//! here. The node is `node-core`'s, its links are those of the `link` crate over a transport
//! of the browser's WebSockets, and tasks run in one nested Worker a slot. Decisions are made
//! in `web-driver`, where they are tested; this crate connects them to the browser.
//!
//! - [`driver`]: one task owns the node, everything else talks to it. With the feature `submits` the node has all
//!   services, and owns the jobs of the page's person; the page loads that one when somebody wants it.
//! - [`host`]: what the node asks for, carried out.
//! - [`left`]: what outlives the page.
//! - `link_end`: an end of a data channel without a node, for measurements; with the same feature.
//! - [`settings`]: what its donor wants, and what the page knows of the computer.
//! - [`socket`]: WebSockets as a libp2p transport.
//! - [`channels`]: data channels, which the page makes; [`channel`]: one of them as a stream.
//! - [`stream`]: what both share.
//! - [`workers`]: the slots' Workers.
//! - [`browser`]: clock, randomness, fetch, messages to the page.

mod browser;
mod channel;
mod channels;
mod driver;
mod host;
mod left;
#[cfg(feature = "submits")]
mod link_end;
mod settings;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod workers;

#[cfg(feature = "submits")]
use driver::jobs;
use driver::{Input, Options};
use futures::channel::mpsc;
#[cfg(feature = "submits")]
use js_sys::Uint8Array;
use std::time::Duration;
use wasm_bindgen::prelude::*;

/// Runs when the module is loaded.
#[cfg_attr(not(test), wasm_bindgen(start))]
pub fn begin() {
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        // This instance is lost; the page starts another.
        browser::post_fatal(&info.to_string());
    }));
}

/// A running node.
#[wasm_bindgen]
pub struct WebNode {
    inputs: mpsc::UnboundedSender<Input>,
}

#[wasm_bindgen]
impl WebNode {
    /// Starts a node that gives `slots` to the swarm of `gateway`, with what `www/left.js` has of it, as
    /// its donor's `policy` (settings by their names) has it under what is `known` of the computer. Its
    /// `speed`, fuel a second of a slot, is measured unless it is said. `channels`: the page makes data channels and
    /// can hand them over.
    // JavaScript gives all arguments in one call.
    #[allow(clippy::too_many_arguments)]
    #[wasm_bindgen(constructor)]
    pub fn new(
        gateway: String,
        slots: u32,
        name: Option<String>,
        invite: Option<String>,
        left: JsValue,
        policy: JsValue,
        known: JsValue,
        speed: Option<f64>,
        channels: bool,
    ) -> Result<WebNode, JsValue> {
        let options = Options {
            gateway,
            slots,
            name: name.unwrap_or_default(),
            invite,
            policy: settings::settings(&policy),
            known: settings::known(&known),
            speed: speed.map(|speed| speed.max(0.0) as u64).filter(|speed| *speed > 0),
            channels,
        };
        let inputs = driver::start(options, left::Left::read(&left)).map_err(|e| JsError::new(&e))?;
        Ok(WebNode { inputs })
    }

    /// Gives this many slots from now on.
    pub fn set_slots(&self, n: u32) {
        // A node that has stopped needs no commands.
        drop(self.inputs.unbounded_send(Input::Slots(n)));
    }

    /// These settings hold from now on.
    pub fn set_policy(&self, policy: &JsValue) {
        drop(self.inputs.unbounded_send(Input::Policy(settings::settings(policy))));
    }

    /// The page knows this of the computer now.
    pub fn set_known(&self, known: &JsValue) {
        drop(self.inputs.unbounded_send(Input::Known(settings::known(known))));
    }

    /// Takes the page's word on an end of a data channel (`rtc` in `www/messages.js`).
    pub fn channel(&self, message: JsValue) {
        drop(self.inputs.unbounded_send(Input::Channel(message)));
    }

    /// Suspends all tasks and hands them on, for so many milliseconds at most; then tells the
    /// gateway, and posts `stopped`.
    pub fn stop(&self, patience_ms: u32) {
        drop(self.inputs.unbounded_send(Input::Stop(Duration::from_millis(patience_ms.into()))));
    }
}

#[cfg(feature = "submits")]
#[wasm_bindgen]
impl WebNode {
    /// Submits a job: its settings by their names (`web/driver/src/jobs.rs`), its program, and its standard input.
    /// Answered by a message with this number.
    pub fn submit(&self, n: u32, job: &JsValue, program: &Uint8Array, input: &Uint8Array) {
        let job = settings::settings(job);
        let (program, input) = (jobs::content(program), jobs::content(input));
        drop(self.inputs.unbounded_send(Input::Job(jobs::Wish::Submit { n, job, program, input })));
    }

    /// Ends a job.
    pub fn cancel(&self, job: &str) {
        if let Some(job) = jobs::id(job) {
            drop(self.inputs.unbounded_send(Input::Job(jobs::Wish::Cancel(job))));
        }
    }

    /// Forgets a job that has ended, with its results.
    pub fn forget(&self, job: &str) {
        if let Some(job) = jobs::id(job) {
            drop(self.inputs.unbounded_send(Input::Job(jobs::Wish::Forget(job))));
        }
    }

    /// Asks for results of a job: of so many units from this one on, and so many bytes of each content. Answered by a
    /// message with this number.
    pub fn results(&self, n: u32, job: &str, from: u32, limit: u32, most: u32) {
        if let Some(job) = jobs::id(job) {
            let (limit, most) = (limit as usize, most as usize);
            drop(self.inputs.unbounded_send(Input::Job(jobs::Wish::Results { n, job, from, limit, most })));
        }
    }

    /// Takes the credit of an invite. Answered by a message with this number.
    pub fn redeem(&self, n: u32, code: String) {
        drop(self.inputs.unbounded_send(Input::Job(jobs::Wish::Redeem { n, code })));
    }
}

/// Faults of these settings, as a JSON list of `key` and `message`. A setting with a fault does not count.
#[wasm_bindgen]
pub fn faults_of(policy: &JsValue) -> String {
    let (_, faults) = web_driver::policy::read(settings::settings(policy));
    web_driver::policy::faults_json(&faults)
}
