import { AppError } from '@platform/kit';

export function checkEmail(email: string): void {
  if (email.length > 254 || !/^[^\s@]+@[^\s@]+$/.test(email)) {
    const detail = 'must be an e-mail address';
    throw new AppError('invalid', 'Invalid email.', { validations: [{ field: 'email', detail }] });
  }
}
