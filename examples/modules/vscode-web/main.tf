terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

variable "agent_id" {
  type        = string
  description = "The id of the agent."
}

variable "port" {
  type        = number
  description = "The port that the server of VS Code listens on."
  default     = 13338
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

locals {
  # the editor must know the address at which the browser finds it
  path = "/@${data.coder_workspace_owner.me.name}/${data.coder_workspace.me.name}.main/apps/vscode-web"
}

resource "coder_script" "vscode_web" {
  agent_id     = var.agent_id
  display_name = "VS Code"
  icon         = "/icon/code.svg"
  run_on_start = true
  script       = <<-EOT
    $ErrorActionPreference = "Stop"
    $folder = Join-Path $HOME ".vscode-web"
    if (-not (Test-Path "$folder\code.exe")) {
      New-Item -ItemType Directory -Force $folder | Out-Null
      Invoke-WebRequest -UseBasicParsing -OutFile "$folder\code.zip" `
        "https://update.code.visualstudio.com/latest/cli-win32-x64/stable"
      Expand-Archive -Force "$folder\code.zip" $folder
    }
    Start-Process -WindowStyle Hidden "$folder\code.exe" (
      "serve-web --host 127.0.0.1 --port ${var.port} --server-base-path ${local.path}" +
      " --without-connection-token --accept-server-license-terms")
  EOT
}

resource "coder_app" "vscode_web" {
  agent_id     = var.agent_id
  slug         = "vscode-web"
  display_name = "VS Code"
  icon         = "/icon/code.svg"
  url          = "http://localhost:${var.port}${local.path}"
  healthcheck {
    url       = "http://localhost:${var.port}${local.path}/"
    interval  = 5
    threshold = 60
  }
}
