//! The pages and the web node, out of the binary.

use super::problem::Problem;
use crate::assets::{ASSETS, Asset};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, OnceLock};

/// Pages by their paths.
#[derive(Clone)]
pub(super) struct Pages {
    all: Arc<BTreeMap<&'static str, Page>>,
    /// There is a page for donors.
    donate: bool,
}

struct Page {
    asset: &'static Asset,
    /// For browsers that take no brotli (over plain HTTP most do not, except from localhost).
    gzip: OnceLock<Bytes>,
}

impl Pages {
    /// `donate`: pages join the swarm here.
    pub(super) fn embedded(donate: bool) -> Self {
        Pages::new(ASSETS, donate)
    }

    fn new(assets: &'static [Asset], donate: bool) -> Self {
        let page = |asset: &'static Asset| {
            (asset.path.trim_start_matches('/'), Page { asset, gzip: OnceLock::new() })
        };
        Pages { all: Arc::new(assets.iter().map(page).collect()), donate }
    }

    /// `/` is index.html, `/dashboard` is dashboard.html, everything else is named in full.
    fn find(&self, path: &str) -> Option<&Page> {
        let path = path.strip_prefix('/')?;
        let name = if path.is_empty() { "index" } else { path };
        self.all.get(path).or_else(|| self.all.get(format!("{name}.html").as_str()))
    }

    pub(super) async fn respond(self, request: Request) -> Response {
        let path = request.uri().path();
        if !self.donate && path == "/" {
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/dashboard")]).into_response();
        }
        let Some(page) = self.find(path) else {
            if self.all.is_empty() && matches!(path, "/" | "/dashboard") {
                return Problem::not_found("this build has no pages; the API is at /api/v1").into_response();
            }
            return StatusCode::NOT_FOUND.into_response();
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET,HEAD")]).into_response();
        }
        let coding = Coding::pick(request.headers(), page.asset);
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(page.asset.mime));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        // Asked again each time and answered with 304: a new version is seen at once.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Some(name) = coding.name() {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
        }
        let etag = coding.etag(page.asset);
        let known = matches_etag(request.headers(), &etag);
        if let Ok(etag) = HeaderValue::try_from(etag) {
            headers.insert(header::ETAG, etag);
        }
        if known {
            headers.remove(header::CONTENT_TYPE);
            headers.remove(header::CONTENT_ENCODING);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        *response.body_mut() = match coding {
            Coding::Identity => page.asset.bytes.into(),
            Coding::Brotli => page.asset.brotli.into(),
            Coding::Gzip => self.gzip(path).await.into(),
        };
        response
    }

    /// Compressed when first asked for, then kept.
    async fn gzip(&self, path: &str) -> Bytes {
        let (pages, path) = (self.clone(), path.to_owned());
        let compress = move || {
            let page = pages.find(&path)?;
            Some(page.gzip.get_or_init(|| gzip(page.asset.bytes)).clone())
        };
        tokio::task::spawn_blocking(compress).await.ok().flatten().unwrap_or_default()
    }
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::best());
    // Writing into memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// How a file's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Identity,
    Gzip,
    Brotli,
}

impl Coding {
    /// The smallest that the client takes (RFC 9110, 12.5.3).
    fn pick(headers: &HeaderMap, asset: &Asset) -> Coding {
        // An asset that brotli could not make smaller is a picture or tiny.
        if asset.brotli.is_empty() {
            return Coding::Identity;
        }
        let listed = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let (mut brotli, mut gzip, mut any) = (None, None, None);
        for item in listed.flat_map(|list| list.split(',')) {
            let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
            let weight = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse().ok());
            let wanted = weight.is_some_and(|weight: f32| weight > 0.0);
            match name.trim().to_ascii_lowercase().as_str() {
                "br" => brotli = Some(wanted),
                "gzip" | "x-gzip" => gzip = Some(wanted),
                "*" => any = Some(wanted),
                _ => {}
            }
        }
        let takes = |named: Option<bool>| named.or(any).unwrap_or(false);
        if takes(brotli) {
            Coding::Brotli
        } else if takes(gzip) {
            Coding::Gzip
        } else {
            Coding::Identity
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Coding::Identity => None,
            Coding::Gzip => Some("gzip"),
            Coding::Brotli => Some("br"),
        }
    }

    /// Names the bytes that travel: another coding is another name.
    fn etag(self, asset: &Asset) -> String {
        let name = asset.etag.trim_matches('"');
        match self.name() {
            None => format!("\"{name}\""),
            Some(coding) => format!("\"{name}-{coding}\""),
        }
    }
}

fn matches_etag(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known
        .flat_map(|list| list.split(','))
        .map(|tag| tag.trim())
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
