import { Outlet } from '@tanstack/react-router';
import { Toasts } from '../ui/toast.tsx';

/** What every page has. */
export function Root() {
  return (
    <>
      <Outlet />
      <Toasts />
    </>
  );
}
