use super::*;
use axum::body::to_bytes;
use std::io::Read;

static TEXT: &[u8] = b"<!doctype html> hello hello hello hello hello hello hello hello";
static PICTURE: &[u8] = b"\x89PNG";

static SITE: &[Asset] = &[
    Asset { path: "/index.html", mime: "text/html", bytes: TEXT, brotli: b"brotli bytes", etag: "e1" },
    Asset { path: "/dashboard.html", mime: "text/html", bytes: TEXT, brotli: b"brotli bytes", etag: "e2" },
    Asset { path: "/pkg/node.wasm", mime: "application/wasm", bytes: TEXT, brotli: b"br", etag: "e3" },
    Asset { path: "/icon.png", mime: "image/png", bytes: PICTURE, brotli: b"", etag: "e4" },
];

async fn ask(method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Pages::new(SITE, true).respond(request.body(Body::empty()).unwrap()).await
}

async fn get(path: &str, headers: &[(&str, &str)]) -> Response {
    ask(Method::GET, path, headers).await
}

async fn body(response: Response) -> Bytes {
    to_bytes(response.into_body(), 1 << 20).await.unwrap()
}

fn header(response: &Response, name: header::HeaderName) -> Option<&str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn pages_have_short_names_and_files_their_own() {
    for (path, etag) in [
        ("/", "\"e1\""),
        ("/dashboard", "\"e2\""),
        ("/dashboard.html", "\"e2\""),
        ("/pkg/node.wasm", "\"e3\""),
    ] {
        let response = get(path, &[]).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(header(&response, header::ETAG), Some(etag), "{path}");
        assert_eq!(body(response).await, TEXT);
    }
    for path in ["/nothing", "/pkg", "/pkg/", "/../secret", "/%2e%2e/secret", "/index.html/"] {
        assert_eq!(get(path, &[]).await.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn a_node_that_takes_in_no_pages_leads_to_its_dashboard() {
    let request = Request::builder().uri("/").body(Body::empty()).unwrap();
    let response = Pages::new(SITE, false).respond(request).await;
    assert_eq!((response.status().as_u16(), header(&response, header::LOCATION)), (307, Some("/dashboard")));
}

#[tokio::test]
async fn the_smallest_coding_that_the_browser_takes_is_sent() {
    for (accepts, coding) in [
        ("gzip, deflate, br, zstd", Some("br")),
        ("gzip, deflate", Some("gzip")),
        ("br;q=0, gzip;q=0.5", Some("gzip")),
        ("BR", Some("br")),
        ("*", Some("br")),
        ("*;q=0", None),
        ("identity", None),
        ("", None),
        ("brotli, xgzip", None),
    ] {
        let response = get("/", &[("accept-encoding", accepts)]).await;
        assert_eq!(header(&response, header::CONTENT_ENCODING), coding, "{accepts}");
        assert_eq!(header(&response, header::VARY), Some("Accept-Encoding"));
        let body = body(response).await;
        match coding {
            Some("br") => assert_eq!(body, &b"brotli bytes"[..]),
            Some(_) => {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
                assert_eq!(plain, TEXT);
            }
            None => assert_eq!(body, TEXT),
        }
    }
}

#[tokio::test]
async fn what_does_not_shrink_is_sent_as_it_is() {
    let response = get("/icon.png", &[("accept-encoding", "br, gzip")]).await;
    assert_eq!(header(&response, header::CONTENT_ENCODING), None);
    assert_eq!(body(response).await, PICTURE);
}

#[tokio::test]
async fn a_browser_that_has_the_file_gets_it_once() {
    let accepts = ("accept-encoding", "br");
    let first = get("/", &[accepts]).await;
    let etag = header(&first, header::ETAG).unwrap().to_owned();
    for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".into()] {
        let again = get("/", &[accepts, ("if-none-match", &known)]).await;
        assert_eq!(again.status(), 304, "{known}");
        assert_eq!(header(&again, header::ETAG), Some(etag.as_str()));
        assert!(body(again).await.is_empty());
    }
    // Another coding is another representation: the browser's copy is of no use.
    assert_eq!(get("/", &[("if-none-match", &etag)]).await.status(), 200);
}

#[tokio::test]
async fn pages_are_only_read() {
    let response = ask(Method::POST, "/", &[]).await;
    assert_eq!(response.status(), 405);
    assert_eq!(header(&response, header::ALLOW), Some("GET,HEAD"));
    assert_eq!(ask(Method::HEAD, "/", &[]).await.status(), 200);
}
