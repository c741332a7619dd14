/** What a program does with the streams that `openTunnel` gives. */
export { DatagramReader, frameDatagram } from '@platform/wire/datagrams';
export { splice } from '@platform/wire/splice';
