//! Messages of a slot to the node: objects for `postMessage`, with the buffers that are given away.

use crate::report::Reporter;
use js_sys::{Array, Function, Object, Reflect, Uint8Array};
use wasm_bindgen::JsValue;
use web_driver::slot::{self, Answer, Shot};

/// Says things in order: answers that wait for company go before anything else.
pub(crate) struct Voice {
    post: Function,
    reporter: Reporter,
}

impl Voice {
    /// `post(message, transfer)`.
    pub(crate) fn new(post: Function) -> Voice {
        Voice { post, reporter: Reporter::default() }
    }

    pub(crate) fn answer(&mut self, now_ms: f64, answer: Answer) -> Result<(), JsValue> {
        if self.reporter.add(now_ms, answer) { self.flush() } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> Result<(), JsValue> {
        let answers = self.reporter.take();
        if answers.is_empty() {
            return Ok(());
        }
        let bytes = slot::encode_answers(&answers).map_err(|e| JsValue::from_str(&e))?;
        let bytes = Uint8Array::from(&bytes[..]);
        self.post(&[("type", &"answers".into()), ("answers", &bytes)], &[&bytes])
    }

    pub(crate) fn gone(&mut self, runs: &[u64]) -> Result<(), JsValue> {
        if runs.is_empty() {
            return Ok(());
        }
        self.flush()?;
        let runs: Array = runs.iter().map(|run| JsValue::from_f64(*run as f64)).collect();
        self.post(&[("type", &"gone".into()), ("runs", &runs)], &[])
    }

    /// It goes on from what it was given.
    pub(crate) fn resumed(&mut self, run: u64) -> Result<(), JsValue> {
        self.flush()?;
        self.post(&[("type", &"resumed".into()), ("run", &JsValue::from_f64(run as f64))], &[])
    }

    pub(crate) fn snapshot(
        &mut self,
        run: u64,
        shot: &Shot,
        sealed: &[u8],
        stopped: bool,
    ) -> Result<(), JsValue> {
        self.flush()?;
        let shot = slot::encode("a snapshot", shot).map_err(|e| JsValue::from_str(&e))?;
        let (shot, sealed) = (Uint8Array::from(&shot[..]), Uint8Array::from(sealed));
        let message: &[(&str, &JsValue)] = &[
            ("type", &"snapshot".into()),
            ("run", &JsValue::from_f64(run as f64)),
            ("shot", &shot),
            ("sealed", &sealed),
            ("stopped", &stopped.into()),
        ];
        self.post(message, &[&shot, &sealed])
    }

    pub(crate) fn spent(&mut self) -> Result<(), JsValue> {
        self.flush()?;
        self.post(&[("type", &"spent".into())], &[])
    }

    fn post(&self, message: &[(&str, &JsValue)], moved: &[&Uint8Array]) -> Result<(), JsValue> {
        let object = Object::new();
        for (key, value) in message {
            Reflect::set(&object, &JsValue::from_str(key), value)?;
        }
        let moved: Array = moved.iter().map(|bytes| JsValue::from(bytes.buffer())).collect();
        self.post.call2(&JsValue::UNDEFINED, &object, &moved).map(drop)
    }
}
