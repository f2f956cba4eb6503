//! Encryption, in the format of age (age-encryption.org): what leaves this node sealed, anybody who
//! has the key opens with any tool that knows the format.

use crate::paths::{DataFolder, PathError, write_private};
use age::secrecy::ExposeSecret;
use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, Encryptor};
use std::io::Read;

/// The key of this node's own files.
pub(crate) struct Seal(Identity);

impl Seal {
    /// The key of this folder; made when there is none yet.
    pub(crate) fn load_or_create(folder: &DataFolder) -> Result<Seal, PathError> {
        let path = folder.age_key();
        if !path.exists() {
            let key = Identity::generate().to_string();
            write_private(&path, format!("{}\n", key.expose_secret()).as_bytes(), false)?;
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|e| PathError(format!("cannot read the key of files {}: {e}", path.display())))?;
        // As `age-keygen` writes it, comments included.
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let key = lines.next().and_then(|line| line.parse().ok()).map(Seal);
        key.ok_or_else(|| {
            PathError(format!(
                "{} holds no age key: restore it from a copy, or move it away; what was encrypted with it can then not be read",
                path.display()
            ))
        })
    }

    /// Public key for which others encrypt files that this node can read: `age1…`.
    pub(crate) fn recipient(&self) -> String {
        self.0.to_public().to_string()
    }

    /// A secret of this folder for one purpose, of which nobody learns anything about the key.
    pub(crate) fn derived(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, self.0.to_string().expose_secret().as_bytes())
    }

    /// For these, and for this node.
    pub(crate) fn encryptor(&self, recipients: &[String]) -> Result<Encryptor, String> {
        let mut all = vec![self.0.to_public()];
        for text in recipients {
            let recipient = text.parse::<Recipient>();
            all.push(recipient.map_err(|why| format!("{text:?} is no recipient (age1…): {why}"))?);
        }
        let all = all.iter().map(|recipient| recipient as &dyn age::Recipient);
        Encryptor::with_recipients(all).map_err(|why| why.to_string())
    }

    /// The content of what somebody encrypted for this node.
    pub(crate) fn open<R: Read>(&self, sealed: R) -> Result<impl Read + use<R>, DecryptError> {
        let key = std::iter::once(&self.0 as &dyn age::Identity);
        Decryptor::new(sealed)?.decrypt(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn seal() -> (tempfile::TempDir, Seal) {
        let root = tempfile::tempdir().unwrap();
        let seal = Seal::load_or_create(&DataFolder::at(root.path())).unwrap();
        (root, seal)
    }

    fn sealed(by: &Seal, recipients: &[String], text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = by.encryptor(recipients).unwrap().wrap_output(&mut out).unwrap();
        writer.write_all(text).unwrap();
        writer.finish().unwrap();
        out
    }

    fn opened(by: &Seal, sealed: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        by.open(sealed).map_err(|e| e.to_string())?.read_to_end(&mut out).map_err(|e| e.to_string())?;
        Ok(out)
    }

    #[test]
    fn what_is_sealed_only_its_recipients_open_and_a_changed_bit_shows() {
        let ((_a, mine), (_b, friend), (_c, stranger)) = (seal(), seal(), seal());
        let text = vec![7; 200_000];
        let own = sealed(&mine, &[], &text);
        assert!(own.windows(32).all(|part| part != [7; 32]), "nothing of it shows");
        assert_eq!(opened(&mine, &own), Ok(text.clone()));
        assert!(opened(&friend, &own).is_err());
        let shared = sealed(&mine, &[friend.recipient()], &text);
        assert_eq!(opened(&friend, &shared), Ok(text));
        assert!(opened(&stranger, &shared).is_err());
        let mut changed = own.clone();
        let at = changed.len() / 2;
        changed[at] ^= 1;
        assert!(opened(&mine, &changed).is_err());
        assert!(opened(&mine, &own[..own.len() - 20]).is_err(), "nor can its end be cut off");
        assert!(mine.encryptor(&["age1nobody".into()]).err().unwrap().contains("age1nobody"));
    }

    #[test]
    fn the_key_stays_and_is_for_its_owner_only() {
        let (root, seal) = seal();
        let folder = DataFolder::at(root.path());
        assert_eq!(Seal::load_or_create(&folder).unwrap().recipient(), seal.recipient());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(folder.age_key()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::write(folder.age_key(), "nonsense\n").unwrap();
        assert!(Seal::load_or_create(&folder).err().unwrap().to_string().contains("no age key"));
    }
}
