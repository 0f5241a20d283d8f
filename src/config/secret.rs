//! Tokens and their hashes: made, compared in constant time, never printed by accident.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A secret in clear. `Debug` hides it and there is no `Display`: whoever needs it says `reveal`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// A fresh agent's token: a recognisable prefix and 256 bits of the operating system's randomness.
    pub fn mint() -> Result<Self, getrandom::Error> {
        Self::mint_as("hbt_")
    }

    /// The same with another prefix: `hbo_` for the page's owner, `hbv_` for its viewers, none for what only cookies hold.
    pub fn mint_as(prefix: &str) -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{prefix}{}", hex(&bytes))))
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// SHA-256 of a token. Enough for tokens of 256 random bits; nothing slower is needed where there is nothing to guess.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// From 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim();
        if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    #[must_use]
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// The part by which a table of hashes is searched; the rest is compared in constant time.
    #[must_use]
    pub fn bucket(self) -> [u8; 8] {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        first
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("hbt_abc".into())), "[hidden]");
    }

    #[test]
    fn minted_tokens_are_recognisable_long_and_different() {
        let (a, b) = (Secret::mint().unwrap(), Secret::mint().unwrap());
        assert!(a.reveal().starts_with("hbt_") && a.reveal().len() == 68 && a != b);
    }

    #[test]
    fn a_hash_survives_its_hexadecimal_form() {
        let hash = TokenHash::of("token");
        assert_eq!(TokenHash::parse(&hash.to_hex()), Some(hash));
        assert_eq!(TokenHash::parse("abc"), None);
        assert_eq!(TokenHash::parse(&"é".repeat(32)), None);
    }
}
