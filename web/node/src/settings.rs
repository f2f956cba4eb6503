//! The page's settings of the donor's policy, converted.

use crate::browser;
use js_sys::{Array, Date, Object, Reflect};
use wasm_bindgen::prelude::*;
use web_driver::policy::{Clock, Known, Setting};

/// Groups within groups. Settings have one; what is deeper is none.
const DEPTH: u32 = 3;

/// The properties of an object; of anything else none.
pub(crate) fn settings(given: &JsValue) -> Vec<(String, Setting)> {
    match setting(given, DEPTH) {
        Setting::Group(group) => group,
        _ => Vec::new(),
    }
}

fn setting(value: &JsValue, depth: u32) -> Setting {
    if let Some(value) = value.as_bool() {
        return Setting::Bool(value);
    }
    if let Some(value) = value.as_f64() {
        return Setting::Number(value);
    }
    if let Some(value) = value.as_string() {
        return Setting::Text(value);
    }
    if depth == 0 {
        return Setting::Nothing;
    }
    if let Some(list) = value.dyn_ref::<Array>() {
        return Setting::List(list.iter().map(|value| setting(&value, depth - 1)).collect());
    }
    let Some(object) = value.dyn_ref::<Object>() else { return Setting::Nothing };
    let entry = |entry: JsValue| {
        let entry: Array = entry.unchecked_into();
        Some((entry.get(0).as_string()?, setting(&entry.get(1), depth - 1)))
    };
    Setting::Group(Object::entries(object).iter().filter_map(entry).collect())
}

pub(crate) fn known(given: &JsValue) -> Known {
    let get = |key: &str| Reflect::get(given, &key.into()).unwrap_or(JsValue::UNDEFINED);
    Known {
        on_battery: get("on_battery").as_bool(),
        charge_pct: get("charge_pct").as_f64(),
        quiet_since_ms: get("quiet_since").as_f64(),
    }
}

pub(crate) fn clock() -> Clock {
    let now = Date::new_0();
    Clock::new(now.get_day(), now.get_hours(), now.get_minutes(), now.get_time())
}

/// Processors, as far as the browser tells.
pub(crate) fn processors() -> u32 {
    browser::hardware_concurrency().map_or(1, |n| n.max(1.0) as u32)
}
