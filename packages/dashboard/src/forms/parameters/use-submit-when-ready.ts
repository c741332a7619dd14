import { useEffect, useState } from 'react';

/**
 * A submission that waits until the server has evaluated the newest values, so that it is neither lost nor sent with
 * outdated ones. `waits` is true meanwhile.
 */
export function useSubmitWhenReady(
  live: { settled: () => boolean } | undefined,
  submit: () => void,
): { submit: () => void; waits: boolean } {
  const [waits, setWaits] = useState(false);
  const settled = () => live?.settled() ?? true;
  // without dependencies: each answer renders the form again
  useEffect(() => {
    if (!waits || !settled()) return;
    setWaits(false);
    submit();
  });
  return { submit: () => (settled() ? submit() : setWaits(true)), waits };
}
