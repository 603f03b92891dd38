//! Profiles of namespaces.

use domain::{Profile, Refusal};

use crate::v1;

/// `None`: nothing is said.
///
/// # Errors
/// A number that no profile of this version has.
pub fn profile(said: i32) -> Result<Option<Profile>, Refusal> {
    match v1::Profile::try_from(said) {
        Ok(v1::Profile::Unspecified) => Ok(None),
        Ok(v1::Profile::SelfHosted) => Ok(Some(Profile::SelfHosted)),
        Ok(v1::Profile::Basic) => Ok(Some(Profile::Basic)),
        Ok(v1::Profile::Standard) => Ok(Some(Profile::Standard)),
        Ok(v1::Profile::Premium) => Ok(Some(Profile::Premium)),
        Err(_) => Err(Refusal::ArgumentOutOfRange {
            what: "profile",
            value: said.to_string(),
            allowed: "0 to 4",
        }),
    }
}

pub fn shown_profile(profile: Profile) -> v1::Profile {
    match profile {
        Profile::SelfHosted => v1::Profile::SelfHosted,
        Profile::Basic => v1::Profile::Basic,
        Profile::Standard => v1::Profile::Standard,
        Profile::Premium => v1::Profile::Premium,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_as_they_are_shown() {
        for one in Profile::ALL {
            assert_eq!(profile(shown_profile(one) as i32), Ok(Some(one)));
        }
        assert_eq!(profile(0), Ok(None));
        assert!(profile(99).is_err());
    }
}
