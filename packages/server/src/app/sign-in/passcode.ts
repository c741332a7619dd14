/**
 * Sets a forgotten password with a code that is sent by mail. Whether an address has an account stays unknown: the answer
 * is the same immediately, and the work comes after it. Attempts are limited like sign-ins.
 */
import type { ChangePasswordWithOneTimePasscodeRequest, RequestOneTimePasscodeRequest } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import { systemTask, verifiedSignIn } from '../../authz/proofs.ts';
import { setPasscode, setPasswordByPasscode, userByEmail, userById } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { notify } from '../notification/enqueue.ts';
import { smtpSettings } from '../notification/smtp-settings.ts';
import { checkPassword, hashPassword } from '../user/password.ts';
import { sameBytes, sha256 } from '../values/token.ts';
import type { SignInLimit } from './sign-in-limit.ts';

const MINUTES = 20;
/**
 * How long a code keeps the next one from being made, in minutes. Anyone can ask for codes for any address: more would
 * fill the mailbox of its person, and each would end the code before it.
 */
const MINUTES_BETWEEN = 2;

/** Whether people can set a forgotten password: passwords are allowed, and mail is configured. */
export function canResetPassword({ config }: Pick<Ctx, 'config'>): boolean {
  return !config.disablePasswordAuth && smtpSettings(config) !== undefined;
}

function checkAvailable(ctx: Ctx): void {
  if (canResetPassword(ctx)) return;
  throw new AppError('forbidden', 'Passwords cannot be reset by email on this server.', {
    detail: 'Ask an administrator for a new password.',
  });
}

/** Counts an attempt. Requests for a code never succeed as far as the limit is concerned. */
const count = (ctx: Ctx, limit: SignInLimit, email: string, check: () => Promise<boolean>): Promise<boolean> =>
  limit.attempt({ address: ctx.ip, account: email.toLowerCase(), device: undefined }, check);

/** Sends a code to an address if it has an account with a password, and no code of the last two minutes. */
export async function requestPasscode(
  ctx: Ctx,
  { email }: RequestOneTimePasscodeRequest,
  limit: SignInLimit,
): Promise<undefined> {
  checkAvailable(ctx);
  await count(ctx, limit, email, async () => false);
  sendPasscode(ctx, email).catch((err) => ctx.log.error('could not send a passcode', { err: errorText(err) }));
}

async function sendPasscode(ctx: Ctx, email: string): Promise<void> {
  const user = await userByEmail(ctx.sql, email);
  if (user?.login_type !== 'password' || user.status === 'suspended') return;
  const passcode = crypto.randomUUID();
  const expires = new Date(ctx.clock.now().getTime() + MINUTES * 60_000);
  const replaceable = new Date(expires.getTime() - MINUTES_BETWEEN * 60_000);
  await ctx.sql.begin(async (tx) => {
    const by = systemTask(systemContext(ctx, 'passcodes'));
    if (!(await setPasscode(tx, by, user.id, { hash: sha256(passcode), expires, replaceable }))) return;
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: 'request_password_reset',
      before: user,
      after: { ...user, one_time_passcode_expires_at: expires },
    });
    const labels = { one_time_passcode: passcode, minutes: String(MINUTES) };
    await notify(ctx, tx, { template: 'oneTimePasscode', to: [user.id], labels, targets: [user.id] });
  });
}

/** Sets a new password with a code, once. All sessions of the account end. */
export async function changePasswordWithPasscode(
  ctx: Ctx,
  { email, one_time_passcode: passcode, password }: ChangePasswordWithOneTimePasscodeRequest,
  limit: SignInLimit,
): Promise<undefined> {
  checkAvailable(ctx);
  checkPassword('password', password);
  const user = await userByEmail(ctx.sql, email);
  const right = await count(ctx, limit, email, async () => {
    const hash = user?.one_time_passcode_hash;
    const valid = hash && (user.one_time_passcode_expires_at?.getTime() ?? 0) > ctx.clock.now().getTime();
    return sameBytes(sha256(passcode), hash ?? sha256('')) && valid === true && user.login_type === 'password';
  });
  if (!user || !right) {
    const text = 'Incorrect email or one-time passcode.';
    throw new AppError('invalid', text, { detail: 'The code may have expired. Request a new one.' });
  }
  if (user.status === 'suspended') {
    throw new AppError('forbidden', 'Your account is suspended. Contact an admin to reactivate your account.');
  }
  const hashed = await hashPassword(password);
  await ctx.sql.begin(async (tx) => {
    // of two requests with the same code, the second finds none
    const by = verifiedSignIn({ userId: user.id });
    if (!(await setPasswordByPasscode(tx, by, { hashed, passcodeHash: sha256(passcode) }))) {
      throw new AppError('invalid', 'Incorrect email or one-time passcode.');
    }
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: 'write',
      userId: user.id,
      before: user,
      after: await userById(tx, user.id),
      fields: { by: 'one-time passcode' },
    });
    await ctx.events.publish(tx, 'revoked', { user_ids: [user.id] });
  });
}
