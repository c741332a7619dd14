import type { ExternalAuthDevice } from '@ropewalk/contract';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { errorText } from '../../api/errors.ts';
import { buttonClass } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';

/** Shows a code that the person types at a provider, for example on their phone, and asks whether they did. */
export function DeviceCode({
  device: { device_code: code, user_code, verification_uri, interval },
  provider,
  onTyped,
  again,
}: {
  device: ExternalAuthDevice;
  /** The provider's name. */
  provider: string;
  /** Exchanges the code. Rejects with the provider's error as detail until the person has typed it. */
  onTyped: (code: string) => Promise<void>;
  /** What starts over after an error. */
  again: ReactNode;
}) {
  const [error, setError] = useState<unknown>();
  const exchange = useRef(onTyped);
  exchange.current = onTyped;
  useEffect(() => {
    let timer = 0;
    let seconds = Math.max(interval, 1);
    let stopped = false;
    const ask = async () => {
      try {
        await exchange.current(code);
      } catch (err) {
        const { detail } = errorText(err);
        if (stopped) return;
        if (detail === 'slow_down') seconds += 5;
        if (detail === 'authorization_pending' || detail === 'slow_down') later();
        else setError(err);
      }
    };
    // as often as the provider allows
    const later = () => {
      timer = window.setTimeout(() => void ask(), seconds * 1000);
    };
    later();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [code, interval]);
  return (
    <div className="flex flex-col gap-4">
      <CodeLine code={user_code} label="Copy the code" />
      <a
        href={verification_uri}
        target="_blank"
        rel="noopener noreferrer"
        className={`${buttonClass('primary')} w-full`}
      >
        Open {provider}
      </a>
      {error === undefined ? (
        <p role="status" className="flex items-center justify-center gap-2 text-muted text-sm">
          <Spinner /> Waiting for {provider}…
        </p>
      ) : (
        <Failure error={error} provider={provider} again={again} />
      )}
    </div>
  );
}

function Failure({ error, provider, again }: { error: unknown; provider: string; again: ReactNode }) {
  const text = errorText(error);
  const expired = text.detail === 'expired_token';
  const denied = text.detail === 'access_denied';
  return (
    <Notice
      tone="bad"
      title={expired ? 'The code has expired.' : denied ? `You declined at ${provider}.` : text.title}
      detail={expired || denied ? undefined : text.detail}
      actions={again}
    />
  );
}
