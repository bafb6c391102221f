/* Browsers start no Worker from file://, so the search of a site on a disk runs in a hidden frame.
   The frame's script hears messages and answers them as a Worker's would. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script src="${new URL(url, location.href)}"></script>`;
      this.ready = new Promise((loaded) => frame.addEventListener("load", loaded)).then(() => {
        const inside = frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        return inside;
      });
      document.body.append(frame);
    }

    async postMessage(data) {
      const inside = await this.ready;
      inside.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
