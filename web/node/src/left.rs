//! The resume store: the state that the page left when it was loaded before, and the state that it leaves
//! now. `www/left.js` keeps it.

use crate::browser::text;
use crate::driver::Input;
use bytes::Bytes;
use futures::channel::mpsc::UnboundedSender;
use js_sys::{Array, Function, Reflect, Uint8Array};
use node_core::disk::Failed;
use node_core::{BlobId, StorageReply};
use wasm_bindgen::prelude::*;
use web_driver::storage::Changes;

pub(crate) struct Left {
    /// The node's key.
    pub(crate) key: [u8; 32],
    pub(crate) records: Vec<(Vec<u8>, Bytes)>,
    pub(crate) blobs: Vec<(BlobId, Bytes)>,
    pub(crate) save: Save,
}

pub(crate) struct Save(Function);

impl Left {
    /// None if the browser keeps nothing.
    pub(crate) fn read(given: &JsValue) -> Option<Left> {
        let get = |key: &str| Reflect::get(given, &key.into()).ok();
        let blob = |(id, bytes): (Vec<u8>, Bytes)| Some((BlobId(id.try_into().ok()?), bytes));
        Some(Left {
            key: get("key")?.dyn_into::<Uint8Array>().ok()?.to_vec().try_into().ok()?,
            records: entries(&get("records")?),
            blobs: entries(&get("blobs")?).into_iter().filter_map(blob).collect(),
            save: Save(get("save")?.dyn_into().ok()?),
        })
    }
}

impl Save {
    /// Writes the changes, and gives `reply` to the node once they are durable, or word that they are not.
    pub(crate) fn save(&self, changes: Changes, reply: StorageReply, node: &UnboundedSender<Input>) {
        let entry = |key: &[u8], value: Option<Bytes>| {
            let value = value.map_or(JsValue::UNDEFINED, |value| Uint8Array::from(&value[..]).into());
            Array::of2(&Uint8Array::from(key), &value)
        };
        let records: Array = changes.records.into_iter().map(|(key, value)| entry(&key, value)).collect();
        let blobs: Array = changes.blobs.into_iter().map(|(id, value)| entry(&id.0, value)).collect();
        let (token, _) = reply.clone().take();
        let failed = move |why: &str| {
            let error =
                Failed(format!("this browser could not keep it: {why}; free space, or close other tabs"));
            Input::Saved(StorageReply::Failed { token, error })
        };
        let told = node.clone();
        let done = Closure::once_into_js(move |why: Option<String>| {
            // A node that has stopped waits for nothing.
            drop(told.unbounded_send(why.map_or(Input::Saved(reply), |why| failed(&why))));
        });
        if let Err(e) = self.0.call3(&JsValue::UNDEFINED, &records, &blobs, &done) {
            drop(node.unbounded_send(failed(&text(&e))));
        }
    }
}

/// Pairs of bytes.
fn entries(list: &JsValue) -> Vec<(Vec<u8>, Bytes)> {
    let bytes = |pair: &Array, at| Some(pair.get(at).dyn_into::<Uint8Array>().ok()?.to_vec());
    let pair = |pair: JsValue| {
        let pair: Array = pair.dyn_into().ok()?;
        Some((bytes(&pair, 0)?, bytes(&pair, 1)?.into()))
    };
    list.dyn_ref::<Array>().map(|list| list.iter().filter_map(pair).collect()).unwrap_or_default()
}
