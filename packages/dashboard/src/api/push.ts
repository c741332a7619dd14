import { call } from './client.ts';

const WORKER = '/push-worker.js';

/** Whether this browser can receive pushed messages. It can only in a secure context. */
export const canPush = (): boolean =>
  'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window;

/** This browser's subscription, if it has one. */
export async function currentPush(): Promise<PushSubscription | null> {
  const registration = canPush() ? await navigator.serviceWorker.getRegistration(WORKER) : undefined;
  return (await registration?.pushManager.getSubscription()) ?? null;
}

/** Subscribes this browser. @throws Error if the person does not allow notifications */
export async function startPush(publicKey: string): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted') {
    throw new Error(
      'Your browser blocks notifications of this site. Allow them in the settings of the site, and try again.',
    );
  }
  await navigator.serviceWorker.register(WORKER);
  const registration = await navigator.serviceWorker.ready;
  const made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey });
  const { endpoint, keys = {} } = made.toJSON();
  await call('POST /users/{user}/webpush/subscription', {
    params: { user: 'me' },
    body: { endpoint: endpoint!, p256dh_key: keys['p256dh']!, auth_key: keys['auth']! },
  });
}

/** Ends the subscription of this browser, so that nobody who uses it later sees messages of this person. */
export async function endPush(): Promise<void> {
  const subscription = await currentPush();
  if (!subscription) return;
  const { endpoint } = subscription;
  await subscription.unsubscribe();
  // if this fails, the push service reports the end to the server with the next message
  await call('DELETE /users/{user}/webpush/subscription', { params: { user: 'me' }, body: { endpoint } }).catch(
    () => {},
  );
}
