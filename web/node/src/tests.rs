//! The conversions between the browser and the decisions, in node and in a Worker of a real
//! browser. Everything else is tested where it is decided, or by `tests/browser`.

use crate::browser::object;
use crate::socket::{address_of, open, url_of};
use crate::workers::{Compiled, read};
use js_sys::{Uint8Array, WebAssembly};
use sandbox::{End, Outcome};
use wasm_bindgen::JsValue;
use wasm_bindgen_test::*;
use web_driver::pool::{ModuleId, Said, Unfit};
use web_driver::slot::{Answer, encode_answers};

const PEER: &str = "12D3KooWBpip778N6jg8iCXtfq9Z9vwVogmbSU9a4ttVvxoUXrXm";

#[wasm_bindgen_test]
fn addresses_become_urls_and_stay_as_they_are() {
    for (address, url) in [
        (format!("/ip4/127.0.0.1/tcp/4002/ws/p2p/{PEER}"), Some("ws://127.0.0.1:4002/")),
        ("/ip6/::1/tcp/4002/ws".into(), Some("ws://[::1]:4002/")),
        ("/dns4/grid.example/tcp/443/tls/ws".into(), Some("wss://grid.example:443/")),
        ("/dns/grid.example/tcp/443/wss".into(), Some("wss://grid.example:443/")),
        ("/ip4/127.0.0.1/tcp/4001".into(), None),
    ] {
        let parsed = address_of(&address).unwrap_or_else(|| panic!("{address}"));
        assert_eq!(parsed.to_string(), address);
        assert_eq!(url_of(&parsed).as_deref(), url, "{address}");
    }
    for text in ["", "/", "ip4", "/ip4/1.2.3/tcp/1", "/udp/1/quic-v1", "/ip4/1.2.3.4/tcp/99999", "/p2p/x"] {
        assert!(address_of(text).is_none(), "{text}");
    }
}

fn says(message: &[(&str, &JsValue)]) -> Said {
    read(&object(message)).0
}

#[wasm_bindgen_test]
fn what_a_slot_says_is_understood() {
    let answers = vec![Answer::Ended(Outcome::of(End::Exited(3))), Answer::Broken("no memory".into())];
    let bytes = Uint8Array::from(&encode_answers(&answers).expect("writable")[..]);
    match says(&[("type", &"answers".into()), ("answers", &bytes)]) {
        Said::Answers(read) => assert_eq!(read, answers),
        other => panic!("{other:?}"),
    }
    assert!(matches!(says(&[("type", &"ready".into())]), Said::Ready));
    assert!(matches!(says(&[("type", &"spent".into())]), Said::Spent));

    let prepared: (&str, &JsValue) = ("type", &"prepared".into());
    let module: (&str, &JsValue) = ("module", &7.into());
    let refused = says(&[prepared, module, ("refused", &"no _start".into())]);
    assert!(
        matches!(refused, Said::Prepared { module: ModuleId(7), result: Err(Unfit::Refused(why)) } if why == "no _start")
    );
    let broken = says(&[prepared, module, ("broken", &"no SIMD".into())]);
    assert!(matches!(broken, Said::Prepared { result: Err(Unfit::Broken(why)), .. } if why == "no SIMD"));

    let empty = WebAssembly::Module::new(&Uint8Array::from(&b"\0asm\x01\0\0\0"[..])).expect("a module");
    let (said, compiled) = read(&object(&[prepared, module, ("compiled", &empty)]));
    assert!(matches!(said, Said::Prepared { module: ModuleId(7), result: Ok(None) }));
    assert!(matches!(compiled, Some(Compiled { id: ModuleId(7), .. })));
}

#[wasm_bindgen_test]
fn what_is_not_understood_is_a_failure_of_the_slot_and_of_nobody_else() {
    let garbage = Uint8Array::from(&[0xc1, 0, 1][..]);
    for message in [
        object(&[("type", &"answers".into()), ("answers", &garbage)]).into(),
        object(&[("type", &"answers".into())]).into(),
        object(&[("type", &"something".into())]).into(),
        JsValue::NULL,
        JsValue::from_str("ready"),
    ] {
        assert!(matches!(read(&message).0, Said::Failed(_)), "{message:?}");
    }
}

#[wasm_bindgen_test]
async fn a_gateway_that_is_not_there_is_an_error_in_words() {
    // Port 1 is one that browsers never connect to; node 20 has no WebSocket at all.
    let error = match open("ws://127.0.0.1:1/".into()).await {
        Ok(_) => panic!("somebody answered"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("ws://127.0.0.1:1/"), "{error}");
}
