//! The node's secret, and whether it can be guessed.

use super::file;
use crate::files;
use crate::serve::ServeArgs;

/// Fewer can be guessed by who tries.
const SECRET_CHARS_MIN: usize = 16;
/// From the command line or its variable, else from the file. The error is one line.
pub fn secret(written: &file::Security, args: &ServeArgs) -> Result<Option<String>, String> {
    let (from, secret) = match (&args.secret, &written.secret, &written.secret_file) {
        (Some(secret), _, _) => ("--secret (or MAYFLY_SECRET)", secret.clone()),
        (None, Some(_), Some(_)) => {
            return Err(
                "security.secret and security.secret_file are both set; keep one".to_owned()
            );
        }
        (None, Some(secret), None) => ("security.secret", secret.clone()),
        (None, None, Some(path)) => {
            let text = files::read_private(path)
                .map_err(|told| format!("security.secret_file: {told}"))?;
            ("the secret of security.secret_file", text.trim().to_owned())
        }
        (None, None, None) => return Ok(None),
    };
    if secret.is_empty() {
        return Err(format!(
            "{from} is empty; give {SECRET_CHARS_MIN} characters or more, or none"
        ));
    }
    match is_weak(&secret) && !written.weak_secret {
        false => Ok(Some(secret)),
        true => Err(format!(
            "{from} has fewer than {SECRET_CHARS_MIN} characters and can be guessed; give more, as \
             openssl rand -base64 32 makes"
        )),
    }
}

/// Whether it is short enough to be guessed.
pub fn is_weak(secret: &str) -> bool {
    secret.chars().count() < SECRET_CHARS_MIN
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn given(secret: Option<&str>, written: &str) -> Result<Option<String>, String> {
        let written = toml::from_str(written).expect("settings");
        let args = ServeArgs { secret: secret.map(str::to_owned), ..ServeArgs::default() };
        super::secret(&written, &args)
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str, mode: u32| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
            format!("secret_file = {path:?}")
        };
        let long = "sixteen letters.";
        let allowed = format!("secret = \"{long}\"");
        for (secret, written, wanted) in [
            (None, String::new(), Ok(None)),
            (Some(long), String::new(), Ok(Some(long))),
            (None, allowed.clone(), Ok(Some(long))),
            (None, file("private", "sixteen letters.\n", 0o600), Ok(Some(long))),
            (None, file("group", "sixteen letters.\n", 0o640), Ok(Some(long))),
            (Some("éééééééééééééééé"), String::new(), Ok(Some("éééééééééééééééé"))),
            (None, "secret = \"short\"\nweak_secret = true".to_owned(), Ok(Some("short"))),
            (Some(""), allowed.clone(), Err("--secret (or MAYFLY_SECRET) is empty; give 16 ")),
            (
                Some(""),
                "weak_secret = true".to_owned(),
                Err("--secret (or MAYFLY_SECRET) is empty"),
            ),
            (
                Some("fifteen letters"),
                String::new(),
                Err("MAYFLY_SECRET) has fewer than 16 characters"),
            ),
            (None, "secret = \"short\"".to_owned(), Err("security.secret has fewer than 16")),
            (None, file("empty", "\n", 0o600), Err("the secret of security.secret_file is empty")),
            (None, file("short", "short\n", 0o600), Err("security.secret_file has fewer than")),
            (
                None,
                file("readable", long, 0o604),
                Err("readable' is open to everyone (mode 604); run"),
            ),
            (None, file("default", long, 0o644), Err("(mode 644); run chmod o= '")),
            (None, "secret_file = \"/gone\"".to_owned(), Err("secret_file: cannot read '/gone': ")),
            (None, allowed + "\nsecret_file = \"x\"", Err("are both set; keep one")),
        ] {
            match (given(secret, &written), wanted) {
                (Ok(seen), Ok(wanted)) => assert_eq!(seen.as_deref(), wanted, "{written}"),
                (Err(told), Err(wanted)) => assert!(told.contains(wanted), "{told}"),
                (seen, _) => panic!("{written}: {seen:?}"),
            }
        }
    }
}
