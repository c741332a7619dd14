import { AppError } from '@ropewalk/kit';

export function checkEmail(email: string): void {
  if (email.length > 254 || !/^[^\s@]+@[^\s@]+$/.test(email)) {
    const detail = 'must be an email address';
    throw new AppError('invalid', 'Invalid email.', { validations: [{ field: 'email', detail }] });
  }
}

/** Checks a full name: free text without control characters. */
export function checkFullName(name: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the check rejects them
  if (name.length > 128 || name !== name.trim() || /[\u0000-\u001f\u007f]/.test(name)) {
    const detail = 'must be at most 128 characters, on one line, without leading or trailing spaces';
    throw new AppError('invalid', 'Invalid name.', { validations: [{ field: 'name', detail }] });
  }
}
