import { join } from 'node:path';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** The server that `npm run dev` shows. */
const server = process.env.CODER_URL ?? 'http://127.0.0.1:3000';
/** Everything that is not a page comes from that server. Its WebSockets check the origin, which must be its own. */
const proxied = [
  '^/api/',
  '^/healthz',
  '^/readyz',
  '^/bin/',
  '^/install\\.sh',
  '^/icon/',
  '^/emojis/',
  '^/@[^/]+/[^/]+/apps/',
];

const LIST = 'src/pages/workspaces/list/list-page.tsx';

interface Graph {
  getModuleInfo(id: string): { importedIds: string[] } | null;
}

/**
 * Puts all modules that some sources import, directly or not, into one file. A module of several of them belongs to the
 * first. What is loaded on demand stays apart.
 */
function filesOf(sources: Record<string, string[]>) {
  let files: Map<string, string> | undefined;
  return (id: string, graph: Graph): string | undefined => {
    if (!files) {
      const found = new Map<string, string>();
      const add = (id: string, name: string) => {
        if (found.has(id)) return;
        found.set(id, name);
        for (const imported of graph.getModuleInfo(id)?.importedIds ?? []) add(imported, name);
      };
      for (const [name, roots] of Object.entries(sources))
        for (const root of roots) add(join(import.meta.dirname, root), name);
      files = found;
    }
    return files.get(id);
  };
}

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss()],
  build: {
    target: 'es2023',
    // inlined files would need data: in the Content-Security-Policy
    assetsInlineLimit: 0,
    // an inline script would break the Content-Security-Policy
    modulePreload: { polyfill: false },
    emptyOutDir: true,
    // the editor and the charts load with their pages only
    chunkSizeWarningLimit: 1_000,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // otherwise each set of pages gets a file of the modules that it shares, and the first page loads forty files
        codeSplitting: {
          groups: [
            {
              debugName: 'frame and list',
              name: filesOf({ frame: ['src/main.tsx', 'src/layouts/shell.tsx'], list: [LIST] }),
              priority: 1,
            },
            // a file for each icon that pages share costs more in requests than the icons themselves
            { name: 'icons', test: /[\\/]lucide-react[\\/].*[\\/]icons[\\/]/, minShareCount: 2 },
          ],
        },
      },
    },
  },
  server: {
    strictPort: true,
    proxy: Object.fromEntries(
      proxied.map((path) => [path, { target: server, ws: true, changeOrigin: true, headers: { origin: server } }]),
    ),
  },
});
