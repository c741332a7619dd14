// Shows notifications that the server pushes while no page of it is open, and opens their page at a click.

self.addEventListener('push', (event) => {
  const { title, body, icon, actions } = event.data.json();
  const url = actions?.[0]?.url ?? '/';
  event.waitUntil(self.registration.showNotification(title, { body, icon: icon || '/favicon.svg', data: { url } }));
});

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(self.clients.openWindow(event.notification.data.url));
});
