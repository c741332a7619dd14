import { AppError } from '@ropewalk/kit';

const NAME = /^[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*$/;
const VERSION_NAME = /^[a-zA-Z0-9]+(?:[_.-][a-zA-Z0-9]+)*$/;
const DISPLAY_NAME = /^\S(.*\S)?$/;

const refuse = (field: string, detail: string) =>
  new AppError('invalid', `Invalid ${field}: ${detail}`, { validations: [{ field, detail }] });

/** Checks workspace, template, role and organization names: 1 to 32 letters, digits and single inner hyphens. */
export function checkName(field: string, value: string): void {
  checkText(field, value, 32);
}

/** Whether a user cannot have a name: the routes and the search use it for something else. */
export const isReservedUsername = (value: string): boolean => /^(new|create|me)$/i.test(value);

/** Checks user names: those of `checkName`, except `me`, which names the caller in routes, searches and commands. */
export function checkUsername(field: string, value: string): void {
  checkName(field, value);
  if (isReservedUsername(value)) throw refuse(field, `"${value}" is reserved`);
}

function checkText(field: string, value: string, most: number): void {
  if (value.length < 1 || value.length > most) throw refuse(field, `must be 1 to ${most} characters long`);
  if (!NAME.test(value)) throw refuse(field, 'use letters, digits and single hyphens between them');
  if (/^(new|create)$/i.test(value)) throw refuse(field, `"${value}" is reserved`);
}

/** Checks group names: 1 to 255 letters, digits and single inner hyphens. */
export function checkGroupName(field: string, value: string): void {
  checkText(field, value, 255);
}

/** Checks template version names: 1 to 64 letters, digits and single `_`, `.` or `-` between them. */
export function checkVersionName(field: string, value: string): void {
  if (value.length < 1 || value.length > 64) throw refuse(field, 'must be 1 to 64 characters long');
  if (!VERSION_NAME.test(value)) throw refuse(field, 'use letters, digits and single "_", "." or "-" between them');
}

/** Checks display names: up to 64 characters, no surrounding white space, may be empty. */
export function checkDisplayName(field: string, value: string): void {
  if (value.length > 64) throw refuse(field, 'must be at most 64 characters long');
  if (value !== '' && !DISPLAY_NAME.test(value)) throw refuse(field, 'must not start or end with white space');
}
