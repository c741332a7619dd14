import { LoaderCircle } from 'lucide-react';

export function Spinner({ size = 15 }: { size?: number }) {
  return <LoaderCircle size={size} aria-hidden="true" className="animate-spin" />;
}
