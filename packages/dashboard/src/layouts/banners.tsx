import { useQuery } from '@tanstack/react-query';
import { RefreshCw, WifiOff } from 'lucide-react';
import type { ReactNode } from 'react';
import { useConnection } from '../api/events.ts';
import { appearanceQuery } from '../api/me.ts';
import { cx, softTone, type Tone } from '../ui/classes.ts';
import { Markdown } from '../ui/markdown.tsx';

function Banner({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <div
      role="status"
      className={cx('flex flex-wrap items-center justify-center gap-2 px-4 py-1.5 text-center text-sm', softTone[tone])}
    >
      {children}
    </div>
  );
}

/** What concerns every page: the connection, an upgrade, announcements of the administrators. */
export function Banners() {
  const { connection, firstVersion, version } = useConnection();
  const announcements = useQuery(appearanceQuery).data?.announcement_banners ?? [];
  return (
    <>
      {announcements.map(
        (banner, at) =>
          banner.enabled &&
          banner.message && (
            <div
              key={at}
              className="px-4 py-1.5 text-center text-sm"
              style={announcementColors(banner.background_color)}
            >
              <Markdown text={banner.message} inline />
            </div>
          ),
      )}
      {connection === 'away' && (
        <Banner tone="warn">
          <WifiOff size={15} aria-hidden="true" />
          The server cannot be reached. This page updates when the server answers again.
        </Banner>
      )}
      {version !== firstVersion && (
        <Banner tone="accent">
          The server was upgraded to {version}.
          <button
            type="button"
            className="inline-flex items-center gap-1 font-medium underline"
            onClick={() => location.reload()}
          >
            <RefreshCw size={13} aria-hidden="true" />
            Reload
          </button>
        </Banner>
      )}
    </>
  );
}

/** The administrators' color, with whichever of black and white is easier to read on it. */
function announcementColors(color: string | undefined): { background: string; color: string } {
  const background = /^#[0-9a-f]{6}$/i.test(color ?? '') ? color! : '#004852';
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(background.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return { background, color: luminance > 0.179 ? '#000000' : '#ffffff' };
}
