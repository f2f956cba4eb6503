//! Services of the Worker's global scope: clock, randomness, fetch, messages to the page.

use gloo_timers::future::TimeoutFuture;
use js_sys::{Array, Function, JSON, Object, Promise, Reflect};
use node_core::Time;
use std::time::Duration;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;

    #[wasm_bindgen(catch, js_namespace = crypto, js_name = getRandomValues)]
    fn get_random_values(into: &mut [u8]) -> Result<(), JsValue>;

    #[wasm_bindgen(catch, js_name = fetch)]
    fn fetch(url: &str) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_name = postMessage)]
    fn post_message(message: &JsValue) -> Result<(), JsValue>;

    #[wasm_bindgen(js_namespace = navigator, js_name = hardwareConcurrency, thread_local_v2)]
    static HARDWARE_CONCURRENCY: Option<f64>;

    /// For whoever opens the developer tools.
    #[wasm_bindgen(js_namespace = console, js_name = warn)]
    pub(crate) fn warn(words: &str);

    type Response;
    #[wasm_bindgen(method, getter)]
    fn status(this: &Response) -> u16;
    #[wasm_bindgen(method, catch)]
    fn json(this: &Response) -> Result<Promise, JsValue>;
}

/// Time since this Worker began.
pub(crate) fn now() -> Time {
    Time((performance_now() * 1000.0).max(0.0) as u64)
}

/// Milliseconds since this Worker began, as fine as the browser tells.
#[cfg(feature = "submits")]
pub(crate) fn now_ms() -> f64 {
    performance_now()
}

/// Milliseconds since 1970.
pub(crate) fn wall_clock_ms() -> u64 {
    js_sys::Date::now().max(0.0) as u64
}

pub(crate) fn random_u32() -> u32 {
    (js_sys::Math::random() * f64::from(u32::MAX)) as u32
}

pub(crate) fn hardware_concurrency() -> Option<f64> {
    HARDWARE_CONCURRENCY.with(Option::clone)
}

/// Fit for keys.
pub(crate) fn random_bytes() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    match get_random_values(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(e) => Err(format!("this browser gives no random numbers: {}", text(&e))),
    }
}

/// An error for people.
pub(crate) fn text(thrown: &JsValue) -> String {
    match thrown.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.message()),
        None => thrown.as_string().unwrap_or_else(|| format!("{thrown:?}")),
    }
}

/// A JavaScript object of these properties.
pub(crate) fn object(properties: &[(&str, &JsValue)]) -> Object {
    let object = Object::new();
    for (key, value) in properties {
        // Fails on frozen objects only.
        drop(Reflect::set(&object, &JsValue::from_str(key), value));
    }
    object
}

/// Posts a message that is given as JSON.
pub(crate) fn post_json(json: &str) {
    // Both fail on our mistakes only: bad JSON, or values that cannot be copied.
    if let Ok(message) = JSON::parse(json) {
        drop(post_message(&message));
    }
}

/// Posts a message of these properties.
pub(crate) fn post(properties: &[(&str, &JsValue)]) {
    drop(post_message(&object(properties)));
}

pub(crate) fn post_stopped() {
    post(&[("type", &"stopped".into())]);
}

pub(crate) fn post_fatal(message: &str) {
    post(&[("type", &"fatal".into()), ("message", &message.into())]);
}

/// The gateway's addresses. The caller limits the time.
pub(crate) async fn ask_gateway(gateway: &str) -> Result<Vec<String>, String> {
    let url = format!("{}/api/v1/network", gateway.trim_end_matches('/'));
    let silent =
        |e: JsValue| format!("the gateway at {gateway} does not answer ({}); is it running?", text(&e));
    let response: Response =
        JsFuture::from(fetch(&url).map_err(silent)?).await.map_err(silent)?.unchecked_into();
    if response.status() != 200 {
        let status = response.status();
        return Err(format!("{url} answers with HTTP status {status}; is it a Manyhands gateway?"));
    }
    let odd = |e: JsValue| format!("{url} answers with something else than JSON ({})", text(&e));
    let network = JsFuture::from(response.json().map_err(odd)?).await.map_err(odd)?;
    let addresses = Reflect::get(&network, &"addresses".into()).unwrap_or(JsValue::UNDEFINED);
    let addresses: Vec<String> = match addresses.dyn_ref::<Array>() {
        Some(list) => list.iter().filter_map(|a| a.as_string()).collect(),
        None => return Err(format!("{url} names no addresses; is it a Manyhands gateway?")),
    };
    web_driver::address::candidates(gateway, &addresses)
}

/// A timer may fire early or late; one far away fires early.
pub(crate) fn delay(time: Duration) -> TimeoutFuture {
    // Browsers count milliseconds in 31 bits, and round down: 1 ms more saves an early wake-up.
    let millis = (time + Duration::from_millis(1)).min(Duration::from_secs(86_400)).as_millis();
    TimeoutFuture::new(u32::try_from(millis).unwrap_or(u32::MAX))
}

/// Calls of JavaScript into Rust that live as long as what they are set on.
pub(crate) fn on<T: wasm_bindgen::convert::FromWasmAbi + 'static>(
    call: impl FnMut(T) + 'static,
) -> (Closure<dyn FnMut(T)>, Function) {
    let closure = Closure::<dyn FnMut(T)>::new(call);
    let function = closure.as_ref().unchecked_ref::<Function>().clone();
    (closure, function)
}
