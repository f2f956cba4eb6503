//! Files of the swarm, through the API.

use super::content::local_write;
use super::types::{Blob, File, Files};
use super::{ApiError, Client, authorized, escape, transport};
use std::io::{Read, Write};

/// Wishes for a file that is put.
pub(crate) struct Wishes<'a> {
    pub(crate) name: &'a str,
    pub(crate) copies: u8,
    /// Micro-credits.
    pub(crate) max_price: Option<u64>,
    pub(crate) encrypt: bool,
    pub(crate) recipients: &'a [String],
}

impl Client {
    /// Sends a file; `opened` opens it anew for each try.
    pub(crate) fn put_file<R: Read>(
        &self,
        wishes: &Wishes<'_>,
        opened: impl Fn() -> Result<(R, u64), ApiError>,
    ) -> Result<(File, String), ApiError> {
        let recipients = escape(&wishes.recipients.join(","));
        let recipients =
            if recipients.is_empty() { String::new() } else { format!("&recipients={recipients}") };
        let max_price = wishes.max_price.map(|most| format!("&max_price={most}")).unwrap_or_default();
        let path = format!(
            "/api/v1/files?name={}&copies={}&encrypt={}{max_price}{recipients}",
            escape(wishes.name),
            wishes.copies,
            wishes.encrypt
        );
        let text = self.patiently(|at| {
            let (reader, len) = opened()?;
            let request = authorized(self.agent.post(format!("{}{path}", at.url)), at)
                .header("content-type", "application/octet-stream")
                .header("content-length", len);
            let mut reader = reader.take(len);
            self.read_text(at, request.send(ureq::SendBody::from_reader(&mut reader)))
        })?;
        Ok((self.parse(&text)?, text))
    }

    pub(crate) fn files(&self) -> Result<(Files, String), ApiError> {
        self.both("/api/v1/files")
    }

    pub(crate) fn file(&self, id: &str) -> Result<(File, String), ApiError> {
        self.both(&format!("/api/v1/files/{}", escape(id)))
    }

    pub(crate) fn remove_file(&self, id: &str) -> Result<(File, String), ApiError> {
        let path = format!("/api/v1/files/{}", escape(id));
        let text = self.patiently(|at| {
            self.read_text(at, authorized(self.agent.delete(format!("{}{path}", at.url)), at).call())
        })?;
        Ok((self.parse(&text)?, text))
    }

    pub(crate) fn publish_file(&self, id: &str, name: &str) -> Result<(File, String), ApiError> {
        self.post(&format!("/api/v1/files/{}/names", escape(id)), &serde_json::json!({ "name": name }))
    }

    /// Has the gateway make a blob of a file that other nodes keep.
    pub(super) fn file_blob(&self, which: &str) -> Result<Blob, ApiError> {
        let path = format!("/api/v1/files/{}/blob", escape(which));
        self.post(&path, &serde_json::json!({})).map(|(blob, _)| blob)
    }

    /// Writes a file's content, and says how many bytes it has.
    pub(crate) fn read_file(
        &self,
        which: &str,
        raw: bool,
        into: &mut impl Write,
        mut seen: impl FnMut(u64, Option<u64>),
    ) -> Result<u64, ApiError> {
        let path = format!("/api/v1/files/{}/content?raw={raw}", escape(which));
        let at = self.endpoint();
        let request = authorized(self.agent.get(format!("{}{path}", at.url)), &at);
        let answer = self.accepted(&at, request.call())?;
        let whole = answer.headers().get("content-length").and_then(|len| len.to_str().ok()?.parse().ok());
        let mut body = answer.into_body().into_reader();
        let (mut buf, mut written) = (vec![0; 64 << 10], 0);
        loop {
            let len = body.read(&mut buf).map_err(|e| match transport(&at, &ureq::Error::Io(e)) {
                ApiError::Unreachable { why, .. } => {
                    ApiError::Local(format!("{which} broke off after {written} bytes: {why}; try again"))
                }
                other => other,
            })?;
            if len == 0 {
                return Ok(written);
            }
            into.write_all(&buf[..len]).map_err(|e| local_write(&e))?;
            written += len as u64;
            seen(written, whole);
        }
    }
}
