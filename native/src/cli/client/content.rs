//! Bytes that go up to the gateway and come down from it.

use super::types::{Blob, Blobs, Output, OutputFile};
use super::{ApiError, Client, authorized, transport};
use crate::text::io_error;
use base64::Engine as _;
use node_core::BlobId;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something to send along with a job.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Path(PathBuf),
    /// Standard input, kept in a temporary file that has no name.
    Spooled(Arc<File>),
    Bytes(&'static [u8]),
    /// A file that other nodes keep: its content id, or a name under which it is published.
    Swarm(String),
}

/// How a path says that it is none, but names a file that other nodes keep.
const SWARM: &str = "swarm:";

/// Content id or published name in a path that begins with [`SWARM`]; `None` for other paths.
pub(crate) fn of_swarm(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(SWARM)
}

/// Below this, asking whether a blob is there costs as much as sending it.
const ASK_FIRST: u64 = 16 << 10;
/// Above this, the gateway may say no before it is sent.
const EXPECT_CONTINUE: u64 = 1 << 20;

impl Content {
    /// Content that a path names, here or in the swarm.
    pub(crate) fn at(path: PathBuf) -> Content {
        match of_swarm(&path) {
            Some(which) => Content::Swarm(which.to_owned()),
            None => Content::Path(path),
        }
    }

    /// Takes all of `from` into a temporary file; none if there is nothing.
    pub(crate) fn spool(mut from: impl Read) -> Result<Option<Content>, ApiError> {
        let mut keep = || -> std::io::Result<Option<File>> {
            let mut file = tempfile::tempfile()?;
            let len = std::io::copy(&mut from, &mut file)?;
            Ok((len > 0).then_some(file))
        };
        let file = keep().map_err(|e| ApiError::Local(format!("cannot keep standard input: {e}")))?;
        Ok(file.map(|file| Content::Spooled(Arc::new(file))))
    }

    /// All of it.
    pub(crate) fn read(&self) -> Result<Vec<u8>, ApiError> {
        let mut bytes = Vec::new();
        self.open()?.read_to_end(&mut bytes).map_err(|e| self.unreadable(&e))?;
        Ok(bytes)
    }

    /// Its length, if it lies here and has at most so many bytes.
    pub(crate) fn small(&self, most: usize) -> Result<Option<usize>, ApiError> {
        let len = match self {
            Content::Path(path) => path.metadata().map_err(|e| self.unreadable(&e))?.len(),
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Spooled(_) | Content::Swarm(_) => return Ok(None),
        };
        Ok(usize::try_from(len).ok().filter(|len| *len <= most))
    }

    fn name(&self) -> String {
        match self {
            Content::Path(path) => path.display().to_string(),
            Content::Spooled(_) => "standard input".into(),
            Content::Bytes(_) => "the built-in program".into(),
            Content::Swarm(which) => format!("{SWARM}{which}"),
        }
    }

    fn open(&self) -> Result<Reader<'_>, ApiError> {
        let opened = match self {
            Content::Path(path) => File::open(path).map(Reader::Own),
            Content::Spooled(file) => {
                let mut at: &File = file;
                at.seek(SeekFrom::Start(0)).map(|_| Reader::Shared(file))
            }
            Content::Bytes(bytes) => Ok(Reader::Bytes(bytes)),
            Content::Swarm(_) => {
                Err(std::io::Error::other("other nodes keep it; `manyhands files get` brings it here"))
            }
        };
        opened.map_err(|e| self.unreadable(&e))
    }

    fn unreadable(&self, e: &std::io::Error) -> ApiError {
        ApiError::Local(format!("cannot read {}: {}", self.name(), io_error(e)))
    }
}

enum Reader<'a> {
    Own(File),
    Shared(&'a File),
    Bytes(&'static [u8]),
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Reader::Own(file) => file.read(buf),
            Reader::Shared(file) => file.read(buf),
            Reader::Bytes(bytes) => bytes.read(buf),
        }
    }
}

impl Client {
    /// Sees to it that the gateway has this content, and returns the blob's id.
    pub(crate) fn upload(&self, content: &Content) -> Result<String, ApiError> {
        if let Content::Swarm(which) = content {
            return Ok(self.file_blob(which)?.id);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(content.open()?).map_err(|e| content.unreadable(&e))?;
        let len = hasher.count();
        let id = BlobId(*hasher.finalize().as_bytes()).to_string();
        if len > ASK_FIRST && self.has_blob(&id)? {
            return Ok(id);
        }
        let sent = self.patiently(|at| {
            let request = authorized(self.agent.post(format!("{}/api/v1/blobs", at.url)), at)
                .header("content-type", "application/octet-stream");
            let request = match len > EXPECT_CONTINUE {
                true => request.header("expect", "100-continue"),
                false => request,
            };
            let answer = match content.open()? {
                Reader::Own(file) => request.send(file),
                Reader::Shared(file) => request.send(file),
                Reader::Bytes(bytes) => request.send(bytes),
            };
            self.read_text(at, answer)
        });
        let blob: Blob = self.parse(&sent.map_err(|e| match e {
            ApiError::Refused { status, message } => {
                ApiError::Refused { status, message: format!("{} was not taken: {message}", content.name()) }
            }
            other => other,
        })?)?;
        if (blob.id.as_str(), blob.len) != (id.as_str(), len) {
            return Err(ApiError::Local(format!(
                "{} changed while it was being sent; leave it alone and try again",
                content.name()
            )));
        }
        Ok(id)
    }

    /// Sends small blobs in one request; their ids, in order.
    pub(crate) fn upload_batch(&self, blobs: &[Vec<u8>]) -> Result<Vec<String>, ApiError> {
        let mut body = Vec::with_capacity(blobs.iter().map(|blob| blob.len() + 8).sum());
        for blob in blobs {
            body.extend_from_slice(&(blob.len() as u64).to_be_bytes());
            body.extend_from_slice(blob);
        }
        let text = self.patiently(|at| {
            let request = authorized(self.agent.post(format!("{}/api/v1/blobs/batch", at.url)), at);
            self.read_text(at, request.header("content-type", "application/octet-stream").send(&body[..]))
        })?;
        let stored: Blobs = self.parse(&text)?;
        let ids: Vec<String> = blobs.iter().map(|blob| BlobId::of(blob).to_string()).collect();
        if stored.blobs.iter().map(|blob| &blob.id).ne(&ids) {
            return Err(ApiError::Strange(format!("{} stored other blobs than were sent", self.url())));
        }
        Ok(ids)
    }

    fn has_blob(&self, id: &str) -> Result<bool, ApiError> {
        self.patiently(|at| {
            let request = authorized(self.agent.head(format!("{}/api/v1/blobs/{id}", at.url)), at);
            match self.accepted(at, request.call()) {
                Ok(_) => Ok(true),
                Err(ApiError::Refused { status: 404, .. }) => Ok(false),
                Err(e) => Err(e),
            }
        })
    }

    /// All of a unit's output stream, wherever it is.
    pub(crate) fn fetch(&self, output: &Output, into: &mut impl Write) -> Result<(), ApiError> {
        self.fetch_from(output.base64.as_deref(), &output.url, output.len, into)
    }

    /// All of a file that a unit wrote.
    pub(crate) fn fetch_file(&self, file: &OutputFile, into: &mut impl Write) -> Result<(), ApiError> {
        self.fetch_from(file.base64.as_deref(), &file.url, file.len, into)
    }

    fn fetch_from(
        &self,
        inline: Option<&str>,
        url: &str,
        len: u64,
        into: &mut impl Write,
    ) -> Result<(), ApiError> {
        if let Some(inline) = inline {
            let bytes = base64::engine::general_purpose::STANDARD.decode(inline).map_err(|e| {
                ApiError::Strange(format!("{} sent an output that is not base64: {e}", self.url()))
            })?;
            return into.write_all(&bytes).map_err(|e| local_write(&e));
        }
        if len == 0 {
            return Ok(());
        }
        self.download(url, len, into)
    }

    /// Content from `url`, a path on the gateway or a whole address there. A gateway that
    /// goes away half-way is waited for, and what came already is not written twice.
    pub(crate) fn download(&self, url: &str, len: u64, into: &mut impl Write) -> Result<(), ApiError> {
        let path = match url.split_once("://") {
            Some((_, rest)) => &rest[rest.find('/').unwrap_or(rest.len())..],
            None => url,
        };
        let progress = std::cell::RefCell::new((0u64, into));
        self.patiently(|at| {
            let request = authorized(self.agent.get(format!("{}{path}", at.url)), at);
            let mut body = self.accepted(at, request.call())?.into_body().into_reader();
            let (written, into) = &mut *progress.borrow_mut();
            std::io::copy(&mut (&mut body).take(*written), &mut std::io::sink())
                .map_err(|e| transport(at, &ureq::Error::Io(e)))?;
            let mut buf = vec![0; 64 << 10];
            loop {
                match body.read(&mut buf).map_err(|e| transport(at, &ureq::Error::Io(e)))? {
                    0 => break,
                    n => {
                        into.write_all(&buf[..n]).map_err(|e| local_write(&e))?;
                        *written += n as u64;
                    }
                }
            }
            if *written != len {
                return Err(ApiError::Strange(format!(
                    "{} sent {written} bytes of {path} where {len} were announced",
                    at.url
                )));
            }
            Ok(())
        })
    }
}

pub(super) fn local_write(e: &std::io::Error) -> ApiError {
    ApiError::Local(match e.kind() {
        std::io::ErrorKind::BrokenPipe => String::new(),
        _ => format!("cannot write an output: {e}"),
    })
}
