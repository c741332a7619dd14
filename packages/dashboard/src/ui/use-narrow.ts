import { useLayoutEffect, useState } from 'react';

// Tailwind's `sm`
const narrowQuery = matchMedia('(width < 40rem)');

/** Whether the window is a phone's. */
export function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(narrowQuery.matches);
  useLayoutEffect(() => {
    const update = () => setNarrow(narrowQuery.matches);
    narrowQuery.addEventListener('change', update);
    return () => narrowQuery.removeEventListener('change', update);
  }, []);
  return narrow;
}
