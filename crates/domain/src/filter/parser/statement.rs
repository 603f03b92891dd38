//! The expressions of an action.

use super::Parser;
use super::primary::known_system_names;
use crate::filter::ast::{Property, Statement};
use crate::filter::lexer::Keyword;
use crate::{RuleError, SystemProperty};

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement, RuleError> {
        if self.eat_keyword(Keyword::Set) {
            let at = self.next;
            let property = self.property()?;
            if let Property::System(system) = property
                && !system.is_settable()
            {
                let expected = known_system_names(SystemProperty::is_settable);
                return Err(self.error(at, expected, format!("{system}, which is read-only")));
            }
            self.need_symbol("=", "'=' after the property to set")?;
            return Ok(Statement::Set(property, self.value()?));
        }
        if self.eat_keyword(Keyword::Remove) {
            let at = self.next;
            return match self.property()? {
                Property::User(name) => Ok(Statement::Remove(name)),
                Property::System(system) => {
                    Err(self.error(at, "a user property to remove", format!("{system}")))
                }
            };
        }
        Err(self.unexpected("SET or REMOVE"))
    }
}
