import { AppError } from '@platform/kit';

export function checkEmail(email: string): void {
  if (email.length > 254 || !/^[^\s@]+@[^\s@]+$/.test(email)) {
    const detail = 'must be an e-mail address';
    throw new AppError('invalid', 'Invalid email.', { validations: [{ field: 'email', detail }] });
  }
}

/** The name a person is called by: free text without control characters. */
export function checkFullName(name: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (name.length > 128 || name !== name.trim() || /[\u0000-\u001f\u007f]/.test(name)) {
    const detail = 'must be at most 128 characters, on one line, without outer white space';
    throw new AppError('invalid', 'Invalid name.', { validations: [{ field: 'name', detail }] });
  }
}
